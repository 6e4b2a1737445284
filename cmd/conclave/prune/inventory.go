package prune

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"conclave/cmd/conclave/hall"
	"conclave/engine/artifact"
	"conclave/engine/coordination"
	"conclave/engine/pipeline"
	"conclave/engine/scenario"
	pipelineflow "conclave/workflows/pipeline"
	scenarioflow "conclave/workflows/scenario"
	sessionflow "conclave/workflows/session"
)

// kind is a kind of run that can be deleted.
type kind struct {
	name     string // name of the kind in JSON
	noun     string // name of the kind in messages
	workflow string // workflow type
	failed   string // status of a run that Temporal ended
	claim    string // file that identifies a run; of a scenario the prefix of several
	record   string // file with the status
}

var (
	sessions = &kind{
		name: "session", noun: "session", workflow: sessionflow.Type, failed: string(coordination.FailedAll), claim: "session.json", record: "status.json",
	}
	pipelines = &kind{
		name: "pipeline", noun: "pipeline run", workflow: pipelineflow.Type, failed: string(pipeline.Failed), claim: "pipeline.json", record: "status.json",
	}
	scenarios = &kind{
		name: "scenario", noun: "scenario run", workflow: scenarioflow.Type, failed: string(scenario.Fail), claim: "claims/", record: "result.json",
	}
	kinds = []*kind{sessions, pipelines, scenarios}
)

// unknown is the status of a run that has no history and no recorded end.
const unknown = "unknown"

// run is a session or other run, with the information that the store and Temporal have about it.
type run struct {
	kind *kind
	id   string // workflow ID; <slug>/<run id> for a scenario's run with files
	root string // prefix of its files; empty without any

	objects  int
	bytes    int64 // bytes of files and histories
	modified time.Time
	claimKey string // the newest, if it has several
	claim    claim
	marked   bool // its deletion has begun

	workflow string // ID; empty if nobody has claimed the files
	open     bool
	closed   []string // run IDs of the workflow's closed executions
	started  time.Time
	ended    time.Time // the last change of the files without a history
	status   string
	query    string
	caller   string // workflow ID of its parent

	parent   *run   // the pipeline run that it is a step of
	children []*run // sessions of its steps
}

// claim has those fields of the claims of all kinds that prune uses.
type claim struct {
	Query      string `json:"query"`
	Request    string `json:"request"` // request of a pipeline
	ConfigHash string `json:"config_hash"`
	WorkflowID string `json:"workflow_id"`
	Continues  string `json:"continues"` // ID of a session
}

// String names the run in messages.
func (r *run) String() string { return r.kind.noun + " " + r.id }

// inventory has all runs of a target.
type inventory struct {
	conn   *hall.Connection
	byRoot map[string]*run
	runs   []*run
}

// take lists the runs of the store and of Temporal.
func take(ctx context.Context, conn *hall.Connection) (*inventory, error) {
	inv := &inventory{conn: conn, byRoot: map[string]*run{}}
	for _, step := range []func(context.Context) error{inv.listFiles, inv.readClaims, inv.listWorkflows, inv.readStatuses, inv.link} {
		if err := step(ctx); err != nil {
			return nil, err
		}
	}
	slices.SortStableFunc(inv.runs, func(a, b *run) int { return b.ended.Compare(a.ended) })
	return inv, nil
}

// owner splits a key into the root of its run and the name of the file within the root.
func owner(key string) (k *kind, id, root, name string) {
	parts := strings.SplitN(key, "/", 5)
	switch {
	case len(parts) > 2 && parts[0] == "sessions":
		k, id = sessions, parts[1]
		root = artifact.InBucket(id).Root()
	case len(parts) > 2 && parts[0] == "pipelines":
		k, id = pipelines, parts[1]
		root = artifact.InPipeline(id).Root()
	case len(parts) > 4 && parts[0] == "scenarios" && parts[2] == "runs":
		k, id = scenarios, parts[1]+"/"+parts[3]
		root = artifact.InScenario(parts[1], parts[3]).Root()
	}
	return k, id, root, strings.TrimPrefix(key, root)
}

// listFiles finds the runs that have files in the store.
func (inv *inventory) listFiles(ctx context.Context) error {
	for _, prefix := range []string{"sessions/", "pipelines/", "scenarios/"} {
		for o, err := range inv.conn.Store.Objects(ctx, prefix) {
			if err != nil {
				return fmt.Errorf("find the files of runs: %w", err)
			}
			k, id, root, name := owner(o.Key)
			if k == nil {
				continue
			}
			r := inv.byRoot[root]
			if r == nil {
				r = &run{kind: k, id: id, root: root}
				inv.byRoot[root] = r
				inv.runs = append(inv.runs, r)
			}
			r.add(o, name)
		}
	}
	return nil
}

func (r *run) add(o artifact.Object, name string) {
	r.objects++
	r.bytes += o.Size
	if o.Modified.After(r.modified) {
		r.modified = o.Modified
	}
	if name == r.kind.claim || strings.HasSuffix(r.kind.claim, "/") && strings.HasPrefix(name, r.kind.claim) {
		r.claimKey = o.Key // keys come in order
	}
	r.marked = r.marked || name == artifact.Deleted
}

// readers is the maximum number of documents read at the same time.
const readers = 16

// each calls do for runs, several at a time.
func (inv *inventory) each(ctx context.Context, do func(context.Context, *run) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(readers)
	for _, r := range inv.runs {
		group.Go(func() error { return do(ctx, r) })
	}
	return group.Wait()
}

// readClaims reads the owners of the files. Files without a readable claim have no owner.
func (inv *inventory) readClaims(ctx context.Context) error {
	return inv.each(ctx, func(ctx context.Context, r *run) error {
		if r.claimKey == "" {
			return nil
		}
		data, err := inv.conn.Store.Get(ctx, r.claimKey)
		if err != nil {
			return ctx.Err() // a damaged claim does not keep its run
		}
		_ = json.Unmarshal(data, &r.claim)
		r.workflow, r.query = r.claim.WorkflowID, cmp.Or(r.claim.Query, r.claim.Request)
		return nil
	})
}

// link finds the sessions that belong to steps of pipeline runs.
func (inv *inventory) link(ctx context.Context) error {
	byWorkflow := map[string]*run{}
	for _, r := range inv.runs {
		if r.kind == pipelines {
			byWorkflow[r.workflow] = r
		}
	}
	var mutex sync.Mutex
	return inv.each(ctx, func(ctx context.Context, r *run) error {
		if r.kind != sessions {
			return nil
		}
		parent := byWorkflow[r.caller]
		if r.caller == "" && r.started.IsZero() {
			parent = inv.parentByName(ctx, r)
		}
		if parent != nil {
			mutex.Lock()
			defer mutex.Unlock()
			r.parent = parent
			parent.children = append(parent.children, r)
		}
		return ctx.Err()
	})
}

// stepSession matches the end of the ID of a step's session: the launch, and a number if
// an older session has the same ID.
var stepSession = regexp.MustCompile(`-l[0-9]+(-[0-9]+)?$`)

// parentByName returns the pipeline run of a session without a history. It compares the
// session's ID with the names of the steps in the run's configuration.
func (inv *inventory) parentByName(ctx context.Context, r *run) *run {
	suffix := stepSession.FindString(r.id)
	if suffix == "" {
		return nil
	}
	name := strings.TrimSuffix(r.id, suffix)
	for at := range len(name) {
		p := inv.byRoot[artifact.InPipeline(name[:at]).Root()]
		if name[at] != '-' || p == nil {
			continue
		}
		var config struct {
			Steps []struct{ Name string }
		}
		data, err := inv.conn.Store.Get(ctx, p.root+"config.json")
		if err == nil && json.Unmarshal(data, &config) == nil &&
			slices.ContainsFunc(config.Steps, func(s struct{ Name string }) bool { return s.Name == name[at+1:] }) {
			return p
		}
	}
	return nil
}
