package artifact

import "fmt"

// Layout builds the keys of one session's directory. The zero Layout is for a store that
// has a single session at its root.
type Layout struct {
	root string // prefix such as sessions/<id>/
	base *Base  // base that the session starts from; nil without one
}

// InBucket returns the layout of a session in a bucket: sessions/<id>/….
func InBucket(session string) Layout { return Layout{root: "sessions/" + session + "/"} }

// InPipeline returns the layout of a pipeline's run in a bucket: pipelines/<id>/….
func InPipeline(id string) Layout { return Layout{root: "pipelines/" + id + "/"} }

// InScenario returns the layout of a scenario's run in a bucket:
// scenarios/<slug>/runs/<id>/….
func InScenario(slug, run string) Layout {
	return Layout{root: "scenarios/" + slug + "/runs/" + run + "/"}
}

// On returns the layout of a session that starts from base, which may be nil.
func (l Layout) On(base *Base) Layout {
	l.base = base
	return l
}

// Base returns the base that the session starts from; nil without one.
func (l Layout) Base() *Base { return l.base }

// WorkflowKey returns the key of the record that names a workflow's session or run. The key
// contains a hash of the ID, which may have characters that keys cannot have.
func WorkflowKey(workflow string) string {
	return "workflows/" + SumOf([]byte(workflow)) + ".json"
}

// Deleted is the name of the file that marks a session or run as being deleted. It is written
// first and deleted last, so that a partly deleted session can be recognized.
const Deleted = "deleted.json"

// Root returns the prefix of every key of the session, empty or ending in "/".
func (l Layout) Root() string { return l.root }

// File returns the key of a file at the session's root, such as session.json.
func (l Layout) File(name string) string { return l.root + name }

// Agent returns the key of a file in an agent's directory.
func (l Layout) Agent(agent, name string) string { return l.root + "agents/" + agent + "/" + name }

// Step returns the key of a file in a step's directory. Numbers have at least three digits.
func (l Layout) Step(agent string, step int, name string) string {
	return fmt.Sprintf("%sagents/%s/%03d/%s", l.root, agent, step, name)
}

// PipelineStep returns the key of a file in a directory of a pipeline's step:
// steps/<NNN>-<name>/….
func (l Layout) PipelineStep(number int, step, name string) string {
	return fmt.Sprintf("%ssteps/%03d-%s/%s", l.root, number, step, name)
}

// ScenarioStep returns the key of a file in the directory of a launch of a scenario's
// step: step-<NN>/… for the first launch, step-<NN>/launch-<n>/… for later ones.
func (l Layout) ScenarioStep(step string, launch int, name string) string {
	if launch > 1 {
		return fmt.Sprintf("%sstep-%s/launch-%d/%s", l.root, step, launch, name)
	}
	return l.root + "step-" + step + "/" + name
}

// Evidence returns the key of a file among the evidence of an attempt of a scenario's step:
// step-<NN>/evidence/… for the first attempt, step-<NN>/attempt-<m>/evidence/… for later ones.
func (l Layout) Evidence(step string, attempt int, name string) string {
	if attempt > 1 {
		return fmt.Sprintf("%sstep-%s/attempt-%d/evidence/%s", l.root, step, attempt, name)
	}
	return l.root + "step-" + step + "/evidence/" + name
}

// Final returns the key of a file of the final answer.
func (l Layout) Final(agent, name string) string { return l.root + "final/" + agent + "/" + name }

// Message returns the key of a human message by its number, from 1.
func (l Layout) Message(number int) string {
	return fmt.Sprintf("%smessages/%03d.json", l.root, number)
}

// Ledger returns the key of the seq-th accepted action of a run.
func (l Layout) Ledger(seq int) string { return fmt.Sprintf("%sledger/%06d.json", l.root, seq) }

// SavedState returns the key of the state in which a run ended.
func (l Layout) SavedState(run string) string { return l.root + "runs/" + run + "/state.json" }

// Blob returns the key of content by its SHA-256 in hex. With an empty sum it returns the
// prefix of all blobs.
func (l Layout) Blob(sum string) string { return l.root + "blobs/sha256/" + sum }

// Journals returns the prefix of the journal of a step's execution.
func (l Layout) Journals(token string) string { return l.root + "journal/" + token + "/" }

// Journal returns the key of the seq-th journal entry of a step's execution.
func (l Layout) Journal(token string, seq int) string {
	return fmt.Sprintf("%s%06d.json", l.Journals(token), seq)
}
