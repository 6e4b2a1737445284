package workflows

import (
	"slices"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"conclave/engine/llm"
)

// Recorder writes the records of a run, one activity at a time. Updates that have to be on record
// before they are answered are counted.
type Recorder struct {
	writing workflow.Future
	asked   int // updates so far
	covered int // those that the newest record has
	kept    int // those on record
	waiting int // those that are not answered yet
}

// history provides entries to record.
type history interface {
	// StartRecord starts an activity that writes the entries that are not yet on record.
	StartRecord(workflow.Context) workflow.Future
	// Recorded receives the result of that activity. After an error the next record repeats the entries.
	Recorded(workflow.Context, workflow.Future) error
}

// Writing reports whether a record is being written.
func (r *Recorder) Writing() bool { return r.writing != nil }

// Due reports whether an update waits for the next record. One that failed is not repeated at once.
func (r *Recorder) Due() bool { return r.writing == nil && r.asked > r.covered }

// Keep blocks the handler of an update until its change is on record.
func (r *Recorder) Keep(ctx workflow.Context) {
	detached, _ := workflow.NewDisconnectedContext(ctx) // the last record of a cancelled run has it, too
	r.asked++
	r.waiting++
	mine := r.asked
	_ = workflow.Await(detached, func() bool { return r.kept >= mine })
	r.waiting--
}

// Write starts a record. The activity continues if the run is cancelled.
func (r *Recorder) Write(ctx workflow.Context, h history) {
	detached, _ := workflow.NewDisconnectedContext(ctx)
	r.startRecord(detached, h)
}

func (r *Recorder) startRecord(ctx workflow.Context, h history) {
	r.covered, r.writing = r.asked, h.StartRecord(ctx)
}

// Select adds the record in progress to the selector, and finishes the record once it is written.
func (r *Recorder) Select(ctx workflow.Context, selector workflow.Selector, h history) {
	if r.writing != nil {
		selector.AddFuture(r.writing, func(workflow.Future) { _ = r.finishRecord(ctx, h) })
	}
}

// Flush waits for the record that is being written, then writes the remaining entries, and has the
// updates answered that waited for them.
func (r *Recorder) Flush(ctx workflow.Context, h history) error {
	if r.writing != nil {
		_ = r.finishRecord(ctx, h) // its entries are in the next record
	}
	for {
		r.startRecord(ctx, h)
		if err := r.finishRecord(ctx, h); err != nil {
			return err
		}
		if r.asked == r.kept {
			return workflow.Await(ctx, func() bool { return r.waiting == 0 })
		}
	}
}

func (r *Recorder) finishRecord(ctx workflow.Context, h history) error {
	writing := r.writing
	r.writing = nil
	err := h.Recorded(ctx, writing)
	if err == nil {
		r.kept = r.covered
	} else {
		workflow.GetLogger(ctx).Error("writing a record failed; the next one repeats it", "error", err)
	}
	return err
}

// FlushInTime writes the last records of a cancelled run within at most two minutes. It reports
// whether they are written.
func FlushInTime(ctx workflow.Context, flush func(workflow.Context) error) (written bool) {
	ended := workflow.NewChannel(ctx)
	workflow.Go(ctx, func(ctx workflow.Context) {
		err := flush(ctx)
		if written = err == nil; !written {
			workflow.GetLogger(ctx).Error("the records of the cancelled run are incomplete", "error", err)
		}
		ended.Close()
	})
	timer := workflow.NewTimerWithOptions(ctx, 2*time.Minute, workflow.TimerOptions{Summary: "for the last records"})
	workflow.NewSelector(ctx).
		AddReceive(ended, func(workflow.ReceiveChannel, bool) {}).
		AddFuture(timer, func(workflow.Future) {}).
		Select(ctx)
	return written
}

// Search attributes of all products' workflows.
const (
	AttributeStatus = "ConclaveStatus"  // running, waiting, or how the workflow ended
	AttributeTeam   = "ConclaveTeam"    // name of the operator's team
	AttributeWinner = "ConclaveWinner"  // ID of the agent whose answer won
	AttributeKind   = "ConclaveKind"    // session, pipeline or scenario
	AttributeCost   = "ConclaveCostUsd" // set at the end, unless a price is unknown
)

// Attributes returns the search attributes and their types.
func Attributes() map[string]enumspb.IndexedValueType {
	const keyword = enumspb.INDEXED_VALUE_TYPE_KEYWORD
	return map[string]enumspb.IndexedValueType{
		AttributeStatus: keyword, AttributeTeam: keyword, AttributeWinner: keyword, AttributeKind: keyword,
		AttributeCost: enumspb.INDEXED_VALUE_TYPE_DOUBLE,
	}
}

// Values of AttributeKind.
const (
	KindSession  = "session"
	KindPipeline = "pipeline"
	KindScenario = "scenario"
)

// Index sets the search attributes of a workflow at its beginning and at its end, and when it waits for people,
// because each update adds an event to the history. It only sets those that exist in the namespace: any other
// would make workflow tasks fail until it is registered.
type Index struct {
	Kind, Team string
	Registered []string // registered attributes, as the preparing worker found them
}

// Begin sets the attributes of a running workflow.
func (x Index) Begin(ctx workflow.Context) {
	x.upsertAttributes(ctx, map[string]string{AttributeKind: x.Kind, AttributeTeam: x.Team, AttributeStatus: Running}, nil)
}

// Change sets the status of a workflow that begins or ends to wait for people.
func (x Index) Change(ctx workflow.Context, status string) {
	x.upsertAttributes(ctx, map[string]string{AttributeStatus: status}, nil)
}

// End sets the attributes of a workflow that has ended.
func (x Index) End(ctx workflow.Context, status, winner string, spent llm.Usage) {
	x.upsertAttributes(ctx, map[string]string{AttributeStatus: status, AttributeWinner: winner}, spent.TotalUSD)
}

// upsertAttributes upserts the non-empty values in one event.
func (x Index) upsertAttributes(ctx workflow.Context, keywords map[string]string, cost *float64) {
	var updates []temporal.SearchAttributeUpdate
	for _, name := range slices.Sorted(slices.Values(x.Registered)) {
		switch value := keywords[name]; {
		case value != "":
			updates = append(updates, temporal.NewSearchAttributeKeyKeyword(name).ValueSet(value))
		case name == AttributeCost && cost != nil:
			updates = append(updates, temporal.NewSearchAttributeKeyFloat64(name).ValueSet(*cost))
		}
	}
	if len(updates) == 0 {
		return
	}
	if err := workflow.UpsertTypedSearchAttributes(ctx, updates...); err != nil {
		workflow.GetLogger(ctx).Error("the search attributes could not be set", "error", err)
	}
}
