package pull

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"

	"conclave/engine/artifact"
	"conclave/engine/coordination"
	"conclave/engine/pipeline"
	pipelineagent "conclave/engine/pipeline/agent"
	"conclave/engine/step"
	"conclave/engine/team"
)

// outcomes are the documents of which a step has the one that its action is.
var outcomes = []string{"answer.json", "vote.json", "stop.json"}

// answer is an answer of a step, of which final/ may be made.
type answer struct {
	artifact.Answer
	manifest string // hash; empty without files
}

// step verifies one step: the commit is the truth about everything else.
func (v *verifier) step(ctx context.Context, agent, number string) error {
	dir := "agents/" + agent + "/" + number + "/"
	manifest, err := v.manifest(ctx, dir)
	if err != nil {
		return err
	}
	data, err := v.read(ctx, dir+"action.json")
	if err != nil {
		return err
	}
	if data == nil {
		return v.uncommitted(ctx, dir, manifest)
	}
	c, ok, err := v.commit(ctx, dir, data, manifest)
	if err != nil || !ok {
		return err
	}
	made, err := v.projection(ctx, agent, c)
	if err != nil {
		v.wrong(dir+"action.json", "cannot be verified: %v", err)
		return nil
	}
	return v.outcome(ctx, dir, c, made)
}

// commit verifies what a commit says of the files beside it. One that cannot be
// read is none.
func (v *verifier) commit(ctx context.Context, dir string, data []byte, manifest string) (c artifact.Commit, ok bool, err error) {
	v.found.Steps++
	if err := json.Unmarshal(data, &c); err != nil {
		v.wrong(dir+"action.json", "is malformed: %v", err)
		return c, false, nil
	}
	if err := v.committedFiles(ctx, dir, c.Manifest, manifest); err != nil {
		return c, false, err
	}
	v.transcript(dir, c.Transcript)
	return c, true, nil
}

// uncommitted takes what can be told of a step of another program, or of one
// without an action.
func (v *verifier) uncommitted(ctx context.Context, dir, manifest string) error {
	data, err := v.read(ctx, dir+"answer.json")
	if err != nil || data == nil {
		return err
	}
	var a artifact.Answer
	if err := json.Unmarshal(data, &a); err != nil {
		v.wrong(dir+"answer.json", "is malformed: %v", err)
		return nil
	}
	v.answers = append(v.answers, answer{Answer: a, manifest: manifest})
	return nil
}

// committedFiles compares the hash of a manifest with the one committed. Without
// a manifest there are no files.
func (v *verifier) committedFiles(ctx context.Context, dir, committed, there string) error {
	name := dir + "workspace.json"
	switch {
	case committed == "" && there == "":
		return v.files(ctx, dir+"workspace", artifact.Manifest{})
	case committed == there:
	case there == "":
		v.wrong(name, "is missing: action.json commits the manifest %s", committed)
	case committed == "":
		v.wrong(name, "is there, and action.json commits no files")
	default:
		v.wrong(name, "is not what action.json commits: its sha256 is %s, committed is %s", there, committed)
	}
	return nil
}

// transcript compares a transcript with its hash; empty for a commit that has none.
func (v *verifier) transcript(dir, committed string) {
	if committed == "" {
		return
	}
	name := dir + "transcript.jsonl"
	switch there, ok, err := fileSum(v.root, name); {
	case err != nil:
		v.wrong(name, "cannot be read: %v", cause(err))
	case !ok:
		v.wrong(name, "is missing: action.json commits it")
	case there != committed:
		v.wrong(name, "is not what action.json commits: its sha256 is %s, committed is %s", there, committed)
	}
}

// projection makes the documents of a commit again.
func (v *verifier) projection(ctx context.Context, agent string, c artifact.Commit) ([]step.Document, error) {
	if _, err := team.ReadOutcome(c); err != nil {
		return nil, err
	}
	m := team.Step{Layout: artifact.InDir(), Launch: coordination.Launch{Agent: agent}}
	spec, err := m.Spec(ctx, v.store)
	if err != nil {
		return nil, err
	}
	return spec.Project(0, c)
}

// outcome compares answer.json, vote.json and stop.json with what is made of the
// commit: there is the one of its action, and no other.
func (v *verifier) outcome(ctx context.Context, dir string, c artifact.Commit, made []step.Document) error {
	want := map[string]any{}
	for _, d := range made {
		if a, ok := d.Body.(artifact.Answer); ok {
			v.answers = append(v.answers, answer{Answer: a, manifest: c.Manifest})
		}
		if !d.Replace {
			want[path.Base(d.Key)] = d.Body
		}
	}
	for _, name := range outcomes {
		data, err := v.read(ctx, dir+name)
		if err != nil {
			return err
		}
		body, expected := want[name]
		switch {
		case expected && data == nil:
			v.wrong(dir+name, "is missing: action.json commits a %s", c.Kind)
		case expected:
			v.agree(dir+name, data, body)
		case data != nil:
			v.wrong(dir+name, "is there, and action.json commits a %s", c.Kind)
		}
	}
	return nil
}

// agree compares a document with what it should say, field by field. It may say
// more than that.
func (v *verifier) agree(name string, data []byte, want any) {
	there, err := fields(data)
	if err != nil {
		v.wrong(name, "is malformed: %v", err)
		return
	}
	encoded, err := artifact.EncodeJSON(want)
	if err != nil {
		v.wrong(name, "cannot be verified: %v", err)
		return
	}
	wanted, err := fields(encoded)
	if err != nil {
		v.wrong(name, "cannot be verified: %v", err)
		return
	}
	for _, field := range slices.Sorted(maps.Keys(wanted)) {
		if !bytes.Equal(there[field], wanted[field]) {
			v.wrong(name, "does not agree with action.json: %s", field)
		}
	}
}

// fields are the members of a JSON object, each in the one form that equal
// values have.
func fields(data []byte) (map[string]json.RawMessage, error) {
	var object map[string]any
	if err := json.Unmarshal(data, &object); err != nil {
		return nil, err
	}
	values := make(map[string]json.RawMessage, len(object))
	for name, value := range object {
		one, err := json.Marshal(value)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		values[name] = one
	}
	return values, nil
}

// segment verifies one segment of a pipeline's step, as step does one of an agent:
// the commit is the truth about everything else.
func (v *verifier) segment(ctx context.Context, name string) error {
	dir := "steps/" + name + "/"
	manifest, err := v.manifest(ctx, dir)
	if err != nil {
		return err
	}
	data, err := v.read(ctx, dir+"action.json")
	if err != nil || data == nil {
		return err
	}
	c, ok, err := v.commit(ctx, dir, data, manifest)
	if err != nil || !ok {
		return err
	}
	o, err := pipelineagent.ReadOutcome(c)
	if err != nil {
		v.wrong(dir+"action.json", "cannot be verified: %v", err)
		return nil
	}
	answer, err := v.read(ctx, dir+"answer.json")
	said := o.Text != "" && o.Action != pipeline.Call
	switch {
	case err != nil:
		return err
	case said && answer == nil:
		v.wrong(dir+"answer.json", "is missing: action.json commits a text")
	case said:
		v.agree(dir+"answer.json", answer, map[string]any{"answer": o.Text, "timestamp": c.Timestamp})
	case answer != nil:
		v.wrong(dir+"answer.json", "is there, and action.json commits no text")
	}
	return nil
}
