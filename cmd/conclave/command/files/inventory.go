package files

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	workflowpb "go.temporal.io/api/workflow/v1"
	"golang.org/x/sync/errgroup"

	"conclave/cmd/conclave/cli"
	"conclave/cmd/conclave/run"
	"conclave/cmd/conclave/run/record"
	"conclave/engine/files/artifact"
	"conclave/engine/text"
	"conclave/workflows"
)

// unknown is the status of a run that has no history and no recorded end.
const unknown = "unknown"

// endedRun is a run with the information that the store and Temporal have about it. Without files its ID is
// that of its workflow.
type endedRun struct {
	record.Run

	objects  int
	bytes    int64 // bytes of files and histories
	modified time.Time
	claimKey string // the newest, if it has several
	claim    runClaim
	config   []byte // of a pipeline
	unread   error  // why config could not be read
	marked   bool   // its deletion has begun

	workflow string // ID; empty if nobody has claimed the files
	open     bool
	closed   []string // run IDs of the workflow's closed executions
	started  time.Time
	ended    time.Time // the last change of the files without a history
	status   string
	query    string
	caller   string // workflow ID of its parent

	parent   *endedRun   // the pipeline run that it is a step of
	children []*endedRun // sessions of its steps
}

// runClaim has those fields of the claims of all kinds, and of their records, that prune uses.
type runClaim struct {
	Query      string `json:"query"`
	Request    string `json:"request"` // request of a pipeline
	ConfigHash string `json:"config_hash"`
	WorkflowID string `json:"workflow_id"`
	Continues  string `json:"continues"` // ID of a session
	Status     string `json:"status"`
}

// inventory has all runs of a target.
type inventory struct {
	conn   *cli.Connection
	byRoot map[string]*endedRun // those with files
	runs   []*endedRun
}

func takeInventory(ctx context.Context, conn *cli.Connection) (*inventory, error) {
	inv := &inventory{conn: conn, byRoot: map[string]*endedRun{}}
	for _, step := range []func(context.Context) error{inv.listFiles, inv.readDocuments, inv.listWorkflows} {
		if err := step(ctx); err != nil {
			return nil, err
		}
	}
	inv.linkSessions()
	slices.SortStableFunc(inv.runs, func(a, b *endedRun) int { return b.ended.Compare(a.ended) })
	return inv, nil
}

func (inv *inventory) listFiles(ctx context.Context) error {
	for _, kind := range record.Kinds {
		for o, err := range inv.conn.Store.Objects(ctx, kind.Folder+"/") {
			if err != nil {
				return fmt.Errorf("find the files of runs: %w", err)
			}
			at, name, ok := record.RunOf(inv.conn.Store, o.Key)
			if !ok {
				continue
			}
			r := inv.byRoot[at.Layout.Root()]
			if r == nil {
				r = &endedRun{Run: at}
				inv.byRoot[at.Layout.Root()] = r
				inv.runs = append(inv.runs, r)
			}
			r.addFile(o, name)
		}
	}
	return nil
}

func (r *endedRun) addFile(o artifact.Object, name string) {
	r.objects++
	r.bytes += o.Size
	if o.Modified.After(r.modified) {
		r.modified = o.Modified
	}
	if isClaim(r.Kind, name) {
		r.claimKey = o.Key // keys come in order
	}
	r.marked = r.marked || name == artifact.Deleted
}

// isClaim reports whether a file is a claim. Each execution of a scenario's run has one.
func isClaim(k *record.Kind, name string) bool {
	return name == k.Claim || k == record.Scenarios && strings.HasPrefix(name, "claims/")
}

// maxReads is the maximum number of documents read at the same time.
const maxReads = 16

// readDocuments reads the owners of the files, the recorded ends of runs and the configurations of
// pipelines. Files without a readable claim have no owner; a damaged document does not keep its run.
func (inv *inventory) readDocuments(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(maxReads)
	for _, r := range inv.runs {
		group.Go(func() error {
			for _, key := range []string{r.Layout.File(r.Kind.Status), r.claimKey} {
				if data, err := r.Store.Get(ctx, key); err == nil {
					_ = json.Unmarshal(data, &r.claim)
				}
			}
			if r.Kind == record.Pipelines {
				r.config, r.unread = r.Store.Get(ctx, r.Layout.File("config.json"))
			}
			r.workflow, r.query = r.claim.WorkflowID, cmp.Or(r.claim.Query, r.claim.Request)
			r.ended, r.status = r.modified, r.claim.Status
			if r.status == "" || r.status == workflows.Running {
				r.status = unknown
			}
			return ctx.Err()
		})
	}
	return group.Wait()
}

func (inv *inventory) linkSessions() {
	byWorkflow := map[string]*endedRun{}
	for _, r := range inv.runs {
		if r.Kind == record.Pipelines {
			byWorkflow[r.workflow] = r
		}
	}
	for _, r := range inv.runs {
		parent := byWorkflow[r.caller]
		if r.caller == "" && r.started.IsZero() {
			parent = inv.parentByName(r)
		}
		if parent != nil && r.Kind == record.Sessions {
			r.parent = parent
			parent.children = append(parent.children, r)
		}
	}
}

// stepSession matches the end of the ID of a step's session: the launch, and a number if
// an older session has the same ID.
var stepSession = regexp.MustCompile(`-l[0-9]+(-[0-9]+)?$`)

// parentByName returns the pipeline run of a session without a history. It compares the
// session's ID with the names of the steps in the run's configuration.
func (inv *inventory) parentByName(r *endedRun) *endedRun {
	suffix := stepSession.FindString(r.ID)
	if suffix == "" {
		return nil
	}
	for _, p := range inv.runs {
		name, ok := strings.CutPrefix(strings.TrimSuffix(r.ID, suffix), p.ID+"-")
		var config struct {
			Steps []struct{ Name string }
		}
		if ok && json.Unmarshal(p.config, &config) == nil && slices.Contains(config.Steps, struct{ Name string }{name}) {
			return p
		}
	}
	return nil
}

func (inv *inventory) listWorkflows(ctx context.Context) error {
	var types []string
	byType, known := map[string]*record.Kind{}, map[string]*endedRun{}
	for _, k := range record.Kinds {
		types = append(types, "'"+k.Workflow+"'")
		byType[k.Workflow] = k
	}
	for _, r := range inv.runs {
		known[r.Kind.Workflow+" "+r.workflow] = r
	}
	executions, err := runs.Executions(ctx, inv.conn, "WorkflowType IN ("+strings.Join(types, ", ")+")")
	if err != nil {
		return fmt.Errorf("list the workflows %s: %w", inv.conn.Target, err)
	}
	for _, e := range executions {
		k, id := byType[e.GetType().GetName()], e.GetExecution().GetWorkflowId()
		if k == nil {
			continue
		}
		r := known[k.Workflow+" "+id]
		if r == nil {
			if e.GetTaskQueue() != inv.conn.Queue {
				continue // another program may have workflows of this type
			}
			r = &endedRun{Run: record.Run{Kind: k, ID: id, Store: inv.conn.Store}, workflow: id}
			known[k.Workflow+" "+id] = r
			inv.runs = append(inv.runs, r)
		}
		r.addExecution(e)
	}
	return nil
}

func (r *endedRun) addExecution(e *workflowpb.WorkflowExecutionInfo) {
	if r.started.IsZero() {
		r.ended = time.Time{} // that of the files
	}
	r.bytes += e.GetHistorySizeBytes()
	if e.GetCloseTime() == nil {
		r.open = true
	} else {
		r.closed = append(r.closed, e.GetExecution().GetRunId())
	}
	if closed := e.GetCloseTime().AsTime(); e.GetCloseTime() != nil && closed.After(r.ended) {
		r.ended = closed
	}
	r.caller = cmp.Or(r.caller, e.GetParentExecution().GetWorkflowId())
	if started := e.GetStartTime().AsTime(); started.After(r.started) { // the newest run counts
		r.started = started
		r.status = runs.StatusOf(r.Kind.Failed, e.GetStatus(), e.GetMemo())
		if r.status == workflows.Running { // or paused, or parked
			r.status = runs.Memo(e.GetMemo(), workflows.MemoStatus, r.status)
		}
		r.query = cmp.Or(runs.Memo(e.GetMemo(), workflows.MemoQuery, ""), r.query)
	}
}

// filter selects the ended runs to remove. All of its conditions must hold.
type filter struct {
	olderThan cli.Age  // age since the end of a run
	keep      int      // number of the newest runs with these statuses that stay
	statuses  []string // empty for all
}

// chooseRuns returns the runs to remove, newest first, and the selected runs that must be
// kept. The sessions of a pipeline's steps are removed with the pipeline's run.
//
// Elsewhere is set if another namespace may share the bucket, so that a run without a history
// here may be open there.
func (f filter) chooseRuns(all []*endedRun, elsewhere bool) (chosen []*endedRun, stay []kept) {
	newest := 0
	for _, r := range all {
		if r.parent != nil || r.isOpen() || !r.marked && len(f.statuses) > 0 && !slices.Contains(f.statuses, r.status) {
			continue
		}
		newest++
		switch {
		case !r.marked && (newest <= f.keep || time.Since(r.ended) < time.Duration(f.olderThan)):
		case !r.marked && elsewhere && r.status == unknown && len(r.closed) == 0:
			stay = append(stay, keepRun(r, "it has no history here and its end is not on record, so it may run in another namespace; "+
				"if it does not, `conclave delete %s` removes it", text.ShellQuote(r.ID)))
		default:
			chosen = append(chosen, r)
		}
	}
	chosen, needed := spareContinued(chosen, all)
	return chosen, append(stay, needed...)
}

// isOpen reports whether the run or the session of one of its steps has not ended.
func (r *endedRun) isOpen() bool {
	return r.open || slices.ContainsFunc(r.children, (*endedRun).isOpen)
}

// withSessions returns the sessions of the run's steps, which are removed first, and the run.
func (r *endedRun) withSessions() []*endedRun { return append(slices.Clone(r.children), r) }

// spareContinued removes from the chosen runs those with a session that a kept run continues.
func spareContinued(chosen, all []*endedRun) (rest []*endedRun, needed []kept) {
	for {
		user := usersOf(chosen, all)
		n := len(needed)
		rest = slices.DeleteFunc(slices.Clone(chosen), func(r *endedRun) bool {
			for _, m := range r.withSessions() {
				if by := user[m.ID]; m.Kind == record.Sessions && by != nil && !m.marked {
					needed = append(needed, keepRun(r, "%s continues %s", by, m))
					return true
				}
			}
			return false
		})
		if chosen = rest; len(needed) == n {
			return rest, needed
		}
	}
}

func usersOf(chosen, all []*endedRun) map[string]*endedRun {
	going := map[*endedRun]bool{}
	for _, r := range chosen {
		for _, m := range r.withSessions() {
			going[m] = true
		}
	}
	users := map[string]*endedRun{}
	for _, r := range all {
		if id := r.claim.Continues; id != "" && !going[r] {
			users[id] = r
		}
	}
	return users
}
