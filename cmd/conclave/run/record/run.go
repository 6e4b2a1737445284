package record

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	acts "conclave/activities/session"
	"conclave/engine/coordination"
	"conclave/engine/files/artifact"
	"conclave/engine/files/snapshot"
	"conclave/engine/pipeline"
	"conclave/engine/scenario"
	"conclave/engine/session"
	"conclave/engine/text"
	pipelineflow "conclave/workflows/pipeline"
	scenarioflow "conclave/workflows/scenario"
	sessionflow "conclave/workflows/session"
)

// Run is a run of any kind with files in a store.
type Run struct {
	Kind   *Kind
	ID     string // SLUG/RUN_ID of a scenario's run; empty in a directory of its own
	Store  artifact.Store
	Layout artifact.Layout

	root *os.Root // directory on this machine, which may lack documents; nil for a store
}

// String names the run in messages.
func (r Run) String() string { return r.Kind.Noun + " " + r.ID }

// Page returns the path of the run's page.
func (r Run) Page() string { return "/" + r.Kind.Folder + "/" + r.ID }

// WorkflowID returns the ID of the workflow of a run that conclave has started.
func (r Run) WorkflowID() string {
	if r.Kind == Scenarios {
		return "scenario-" + strings.Replace(r.ID, "/", "-", 1)
	}
	return r.ID
}

// CheckID refuses a text that no run has as its ID: of a scenario's run the ID is SLUG/RUN_ID. Its
// error truncates a long ID.
func CheckID(id string) error {
	const most = 80
	slug, run, slashed := strings.Cut(id, "/")
	if !slashed {
		err := artifact.CheckSessionID(id)
		if wrong, ok := errors.AsType[*artifact.NameError](err); ok {
			wrong.Name = text.Truncate(wrong.Name, most)
		}
		return err
	}
	if err := scenario.CheckSlug(slug); err != nil {
		return err
	}
	return scenario.CheckRunID(run)
}

// Find returns the run with an ID that CheckID admits. The run of a scenario is also found by its
// run ID, if only one scenario has it, and by the ID of its workflow. A run without its claim is
// found by its other files. If there is no such run, the error is ErrNone.
func Find(ctx context.Context, store artifact.Store, id string) (Run, error) {
	if strings.Contains(id, "/") {
		return existingRun(ctx, Scenarios.At(store, id))
	}
	for _, k := range []*Kind{Sessions, Pipelines} {
		r := k.At(store, id)
		there, err := store.Exists(ctx, r.Layout.File(k.Claim))
		if err != nil {
			return r, fmt.Errorf("look for %s: %w", r, err)
		}
		if there {
			return r, nil
		}
	}
	r, err := findScenario(ctx, store, id)
	for _, k := range []*Kind{Sessions, Pipelines} {
		if errors.Is(err, ErrNone) {
			r, err = existingRun(ctx, k.At(store, id))
		}
	}
	return r, err
}

func existingRun(ctx context.Context, r Run) (Run, error) {
	for _, err := range r.Store.List(ctx, r.Layout.Root()) {
		if err != nil {
			return r, fmt.Errorf("look for %s: %w", r, err)
		}
		return r, nil
	}
	return r, ErrNone
}

func findScenario(ctx context.Context, store artifact.Store, id string) (Run, error) {
	var found []string
	for key, err := range store.List(ctx, Scenarios.Folder+"/") {
		if err != nil {
			return Run{}, fmt.Errorf("look for scenario run %s: %w", id, err)
		}
		r, _, ok := RunOf(store, key)
		if _, run, _ := strings.Cut(r.ID, "/"); ok && (run == id || r.WorkflowID() == id) && !slices.Contains(found, r.ID) {
			found = append(found, r.ID)
		}
	}
	switch len(found) {
	case 0:
		return Run{}, ErrNone
	case 1:
		return Scenarios.At(store, found[0]), nil
	}
	return Run{}, fmt.Errorf("several scenarios have a run %s; name one of %s", id, strings.Join(found, ", "))
}

// RunOf returns the run to which a key belongs, and the path of the file within the run. It returns
// false for a key that belongs to no run.
func RunOf(store artifact.Store, key string) (r Run, name string, ok bool) {
	folder, rest, _ := strings.Cut(key, "/")
	at := slices.IndexFunc(Kinds, func(k *Kind) bool { return k.Folder == folder })
	if at < 0 {
		return r, "", false
	}
	id, name, ok := strings.Cut(rest, "/")
	if Kinds[at] == Scenarios && ok {
		parts := strings.SplitN(name, "/", 3)
		if len(parts) < 3 || parts[0] != "runs" {
			return r, "", false
		}
		id, name = id+"/"+parts[1], parts[2]
	}
	return Kinds[at].At(store, id), name, ok
}

// InDirectory returns the run whose files are in a directory on this machine: a copy, a session of
// step mode, or a run in the folder of its scenario. Without the root it is a session.
func InDirectory(store artifact.Store, root *os.Root) Run {
	r := Run{Kind: Sessions, Store: store, root: root}
	if root == nil {
		return r
	}
	for _, k := range []*Kind{Sessions, Pipelines} {
		if _, err := root.Stat(k.Claim); err == nil {
			r.Kind = k
			return r
		}
	}
	if _, err := root.Stat(Scenarios.Status); err == nil {
		r.Kind = Scenarios
	}
	return r
}

// OpenDirectory opens the run in a directory on this machine, until it is closed.
func OpenDirectory(dir string) (r Run, closeIt func(), err error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return r, nil, err
	}
	store, err := artifact.NewDir(dir)
	if err != nil {
		_ = root.Close()
		return r, nil, err
	}
	return InDirectory(store, root), func() { _, _ = store.Close(), root.Close() }, nil
}

// Steps lists the directories of an agent's steps, or of all steps if the agent is empty, by agent
// and number; those of a pipeline's run by number.
func (r Run) Steps(ctx context.Context, agent string) ([]StepDir, error) {
	prefixes := r.Kind.steps
	if agent != "" && r.Kind.agent != "" {
		name, err := artifact.EscapePath(agent)
		if err != nil || strings.Contains(agent, "/") {
			return nil, nil // no agent has such a name
		}
		prefixes = []string{r.Kind.agent + name + "/"}
	}
	var steps []StepDir
	seen := map[string]bool{}
	err := r.eachStepFile(ctx, prefixes, func(d StepDir, _ string) {
		if !seen[d.Dir] && (agent == "" || d.Agent == agent || d.Place() == agent) {
			seen[d.Dir] = true
			steps = append(steps, d)
		}
	})
	slices.SortStableFunc(steps, func(a, b StepDir) int {
		if r.Kind == Pipelines {
			return cmp.Or(strings.Compare(a.branch(), b.branch()), a.Number-b.Number)
		}
		return cmp.Or(strings.Compare(a.Agent, b.Agent), a.Number-b.Number)
	})
	return steps, err
}

// eachStepFile calls do with every file of the steps below the prefixes.
func (r Run) eachStepFile(ctx context.Context, prefixes []string, do func(d StepDir, name string)) error {
	for _, prefix := range prefixes {
		for key, err := range r.Store.List(ctx, r.Layout.File(prefix)) {
			if err != nil {
				return fmt.Errorf("list the steps of %s: %w", r.Store.URL(r.Layout.Root()), err)
			}
			name := strings.TrimPrefix(key, r.Layout.Root())
			if d, ok := r.Kind.StepOf(name); ok {
				do(d, strings.TrimPrefix(name, d.Dir))
			}
		}
	}
	return nil
}

// Kind describes the runs of a kind: their names and the places of their files.
type Kind struct {
	Name     string // session, pipeline or scenario, as in JSON
	Noun     string // word for a run in messages
	Folder   string // folder of the runs in a store, and of their pages
	Claim    string // file that the first activity of a run writes
	Status   string // file with the newest status
	Workflow string // type of the workflow
	Failed   string // status of a run whose workflow Temporal has ended

	steps []string       // folders of the steps within a run; the empty one is the run's own
	agent string         // prefix of the folder of an agent's steps; empty without such folders
	step  *regexp.Regexp // matches the directory of a step, with the groups agent and number
}

// The kinds of runs.
var (
	Sessions = &Kind{
		Name: "session", Noun: "session", Folder: "sessions", Claim: "session.json", Status: "status.json",
		Workflow: sessionflow.Type, Failed: string(coordination.FailedAll),
		steps: []string{"agents/"}, agent: "agents/", step: regexp.MustCompile(`^agents/(?P<agent>[^/]+)/(?P<number>` + threeDigits + `)/`),
	}
	Pipelines = &Kind{
		Name: "pipeline", Noun: "pipeline run", Folder: "pipelines", Claim: "pipeline.json", Status: "status.json",
		Workflow: pipelineflow.Type, Failed: string(pipeline.Failed),
		steps: []string{"steps/", "branches/"}, step: regexp.MustCompile(`^(?:branches/.+?/)?steps/(?P<number>` + threeDigits + `)-(?P<agent>[^/]+)/`),
	}
	// Scenarios are runs of scenarios. Each execution of such a run writes a claim of its own.
	Scenarios = &Kind{
		Name: "scenario", Noun: "scenario run", Folder: "scenarios", Claim: "claims/001.json", Status: "result.json",
		Workflow: scenarioflow.Type, Failed: string(scenario.Fail),
		steps: []string{""}, agent: "step-", step: regexp.MustCompile(`^step-(?P<agent>[^/]+)/(?:launch-(?P<number>[2-9]|[1-9][0-9]+)/)?`),
	}
	Kinds = []*Kind{Sessions, Pipelines, Scenarios}
)

// threeDigits matches the number of a step in the name of its directory, from 001.
const threeDigits = "00[1-9]|0[1-9][0-9]|[1-9][0-9]{2,}"

// StepDir is the directory of a step.
type StepDir struct {
	Agent  string // the agent; the name of a pipeline's step, the ID of a scenario's
	Number int    // number of the step; of a scenario's step the number of its launch
	Dir    string // path within the run, with a "/" at its end
}

// StepOf returns the step whose directory has a file of a run, and false if none has. Name is the
// path of the file within the run.
func (k *Kind) StepOf(name string) (StepDir, bool) {
	found := k.step.FindStringSubmatch(name)
	if found == nil {
		return StepDir{}, false
	}
	d := StepDir{Agent: unescapeName(found[k.step.SubexpIndex("agent")]), Number: 1, Dir: found[0]}
	if number := found[k.step.SubexpIndex("number")]; number != "" {
		var err error
		if d.Number, err = strconv.Atoi(number); err != nil {
			return StepDir{}, false
		}
	}
	return d, true
}

// At returns the run of a kind with an ID in a store, whether or not it exists. The ID of a
// scenario's run is SLUG/RUN_ID.
func (k *Kind) At(store artifact.Store, id string) Run {
	r := Run{Kind: k, ID: id, Store: store}
	switch k {
	case Pipelines:
		r.Layout = artifact.InPipeline(id)
	case Scenarios:
		slug, run, _ := strings.Cut(id, "/")
		r.Layout = artifact.InScenario(slug, run)
	default:
		r.Layout = artifact.InBucket(id)
	}
	return r
}

// Output is the hand-over of a step with files: an answer of a session, or the state of the files
// after a step of a pipeline's run.
type Output struct {
	Label string // label of the answer, or name of the step's directory
	Agent string
	Dir   string // directory of the step, within the run

	step StepDir
}

// Outputs lists the accepted answers of a session, or the ended steps of a pipeline's run, in order.
// A scenario's run has none.
func (r Run) Outputs(ctx context.Context) ([]Output, error) {
	var all []Output
	switch r.Kind {
	case Sessions:
		entries, err := session.Ledger(ctx, r.Store, r.Layout)
		if err != nil {
			return nil, fmt.Errorf("look for the answers of %s: %w", r, err)
		}
		for _, e := range entries {
			if e.Action == coordination.NewAnswer {
				all = append(all, Output{Label: e.Label, Agent: e.Agent, Dir: artifact.Layout{}.Step(e.Agent, e.Step, "")})
			}
		}
	case Pipelines:
		err := r.eachStepFile(ctx, r.Kind.steps, func(d StepDir, name string) {
			if name == "action.json" {
				all = append(all, Output{Label: path.Join(d.branch(), path.Base(d.Dir)), Agent: d.Agent, Dir: d.Dir, step: d})
			}
		})
		if err != nil {
			return nil, err
		}
		slices.SortFunc(all, func(a, b Output) int {
			inner, outer := a.step.branch(), b.step.branch()
			if (inner == "") != (outer == "") { // the first line has the last word
				return len(outer) - len(inner)
			}
			return cmp.Or(strings.Compare(inner, outer), a.step.Number-b.step.Number)
		})
	}
	return all, nil
}

// Place returns the name of a pipeline's step with the path of its branch, such as each/12/read.
func (d StepDir) Place() string { return path.Join(d.branch(), d.Agent) }

// branch returns the path of the branch of a pipeline's step; empty outside.
func (d StepDir) branch() string {
	within, inside := strings.CutPrefix(d.Dir, "branches/")
	if !inside {
		return ""
	}
	branch, _, _ := strings.Cut(within, "/steps/")
	return branch
}

// Result returns the label of the output that is the result of the run: the decision of a session,
// the last step of a pipeline's run. It is "" before the end.
func (r Run) Result(ctx context.Context, outputs []Output) (string, error) {
	if r.Kind == Pipelines {
		ended, err := r.Store.Exists(ctx, r.Layout.File("result.json"))
		if err != nil {
			return "", fmt.Errorf("look for the result of %s: %w", r, err)
		}
		if !ended || len(outputs) == 0 {
			return "", nil
		}
		return outputs[len(outputs)-1].Label, nil
	}
	status, err := artifact.ReadJSON[acts.State](ctx, r.Store, r.Layout.File(r.Kind.Status))
	if err != nil && !errors.Is(err, artifact.ErrNotFound) {
		return "", fmt.Errorf("look for the decision of %s: %w", r, err)
	}
	if status.Final == nil {
		return "", nil
	}
	return status.Final.Label, nil
}

// OnBase returns the run with the base that its claim names, if it names one.
func (r Run) OnBase(ctx context.Context) (Run, error) {
	claim, err := artifact.ReadJSON[artifact.Material](ctx, r.Store, r.Layout.File(r.Kind.Claim))
	if err != nil {
		return r, fmt.Errorf("read the claim of %s: %w", r, err)
	}
	if claim.Base == "" {
		return r, nil
	}
	hash, err := snapshot.Parse(claim.Base)
	if err != nil {
		return r, fmt.Errorf("read the base of %s: %w", r, err)
	}
	b, err := snapshot.Open(ctx, r.Store, hash)
	if err != nil {
		return r, fmt.Errorf("read the base of %s: %w", r, err)
	}
	r.Layout = r.Layout.On(b)
	return r, nil
}

// evidenceForm matches the files of evidence within a scenario's run.
var evidenceForm = regexp.MustCompile(`^step-[^/]+/(?:attempt-[0-9]+/)?evidence/.`)

// Evidence lists the files of evidence of a scenario's run.
func (r Run) Evidence(ctx context.Context) ([]artifact.File, error) {
	var files []artifact.File
	for o, err := range r.Store.Objects(ctx, r.Layout.Root()) {
		if err != nil {
			return nil, fmt.Errorf("list the evidence of %s: %w", r, err)
		}
		if name := strings.TrimPrefix(o.Key, r.Layout.Root()); evidenceForm.MatchString(name) {
			files = append(files, artifact.File{Path: name, Size: o.Size})
		}
	}
	return files, nil
}
