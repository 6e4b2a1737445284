package pull

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"maps"
	"path"
	"reflect"
	"slices"
	"strconv"

	"conclave/engine/artifact"
	"conclave/engine/coordination"
	pipelineagent "conclave/engine/pipeline/agent"
	"conclave/engine/step"
	"conclave/engine/team"
)

// actionFiles are the documents of actions. A committed step has exactly one of them.
var actionFiles = []string{"answer.json", "vote.json", "stop.json"}

// answer is a step's answer, from which final/ may have been made.
type answer struct {
	artifact.Answer
	manifest string // hash; empty without files
}

// step verifies an agent's step against its commit.
func (v *verifier) step(ctx context.Context, agent, dir string) {
	manifest := v.manifest(ctx, dir)
	data := v.read(ctx, dir+"action.json")
	if data == nil {
		v.uncommitted(ctx, dir, manifest)
		return
	}
	number, _ := strconv.Atoi(path.Base(dir)) // run passes only directories with numbers
	at := numbered{agent, number}
	uncounted := len(v.entries) > 0 && !v.counted[at]
	c, ok := v.commit(ctx, dir, data, manifest, uncounted)
	if !ok {
		return
	}
	v.commits[at] = c
	uncounted = uncounted && ledgered[c.Kind]
	if uncounted && !v.running {
		v.found.Uncounted = append(v.found.Uncounted, path.Clean(dir))
	}
	derived, err := v.derive(ctx, agent, dir, c, manifest)
	if err != nil {
		v.report(dir+"action.json", "cannot be verified: %v", err)
		return
	}
	v.outcome(ctx, dir, c, derived, uncounted)
}

// uncommitted collects the answer of a step without a commit. Other programs write such steps.
func (v *verifier) uncommitted(ctx context.Context, dir, manifest string) {
	data := v.read(ctx, dir+"answer.json")
	var a artifact.Answer
	if data != nil && v.decode(dir+"answer.json", data, &a) {
		v.answers = append(v.answers, answer{Answer: a, manifest: manifest})
	}
}

// pipelineStep verifies a step of a pipeline against its commit.
func (v *verifier) pipelineStep(ctx context.Context, dir string) {
	manifest := v.manifest(ctx, dir)
	data := v.read(ctx, dir+"action.json")
	if data == nil {
		return
	}
	c, ok := v.commit(ctx, dir, data, manifest, false)
	if !ok {
		return
	}
	ended, err := pipelineagent.Ended(c)
	if err != nil {
		v.report(dir+"action.json", "cannot be verified: %v", err)
		return
	}
	v.replaced[dir+"last_action.json"] = true
	existing := v.read(ctx, dir+"answer.json")
	switch {
	case ended.Said && existing == nil:
		v.report(dir+"answer.json", "is missing: action.json commits a text")
	case ended.Said:
		v.compare(dir+"answer.json", existing, map[string]any{"answer": ended.Text, "timestamp": c.Timestamp})
	case existing != nil:
		v.report(dir+"answer.json", "is there, and action.json commits no text")
	}
}

// commit compares the hashes in a commit with the files and the transcript. The manifest of an
// uncounted step may be missing. It returns false if the commit is malformed.
func (v *verifier) commit(ctx context.Context, dir string, data []byte, manifest string, uncounted bool) (c artifact.Commit, ok bool) {
	v.found.Steps++
	if !v.decode(dir+"action.json", data, &c) {
		return c, false
	}
	name := dir + "workspace.json"
	switch {
	case c.Manifest == "" && manifest == "":
		v.files(ctx, dir+"workspace", artifact.Manifest{})
	case c.Manifest == manifest, uncounted && manifest == "":
	case manifest == "":
		v.report(name, "is missing: action.json commits the manifest %s", c.Manifest)
	case c.Manifest == "":
		v.report(name, "is there, and action.json commits no files")
	default:
		v.report(name, "is not what action.json commits: its sha256 is %s, committed is %s", manifest, c.Manifest)
	}
	if v.read(ctx, dir+"step.json") == nil {
		v.report(dir+"step.json", "is missing: action.json commits the step")
	}
	if c.Transcript != "" {
		v.transcript(dir+"transcript.jsonl", c.Transcript)
	}
	return c, true
}

// transcript compares a transcript with its committed hash.
func (v *verifier) transcript(name, committed string) {
	switch sum, err := fileSum(v.root, name); {
	case errors.Is(err, fs.ErrNotExist):
		v.report(name, "is missing: action.json commits it")
	case err != nil:
		v.report(name, "cannot be read: %v", cause(err))
	case sum != committed:
		v.report(name, "is not what action.json commits: its sha256 is %s, committed is %s", sum, committed)
	}
}

// derive builds the documents that the session derived from a commit in its bucket. If
// the manifest in dir differs from the committed one, it leaves out the files.
func (v *verifier) derive(ctx context.Context, agent, dir string, c artifact.Commit, manifest string) ([]step.Document, error) {
	if _, err := team.ReadOutcome(c); err != nil {
		return nil, err
	}
	if c.Manifest != manifest {
		c.Manifest = ""
	}
	m := team.Step{Layout: artifact.Layout{}.On(v.base), Launch: coordination.Launch{Agent: agent}, Agents: v.agents}
	spec, err := m.Spec(ctx, original{Store: v.store, base: v.base, blob: m.Layout.Blob(c.Manifest), manifest: dir + "workspace.json"})
	if err != nil {
		return nil, err
	}
	return spec.Documents(0, c)
}

// original makes a copy readable like the bucket of the session: keys are paths of the copy,
// and the key of the manifest's blob opens the manifest.
type original struct {
	artifact.Store
	base           *artifact.Base
	blob, manifest string // keys of both objects
}

func (o original) Open(ctx context.Context, key string) (io.ReadCloser, error) {
	if key != o.blob {
		return o.Store.Open(ctx, key)
	}
	m, err := artifact.ReadJSON[artifact.Manifest](ctx, o.Store, o.manifest)
	if err != nil {
		return nil, err
	}
	data, err := artifact.EncodeJSON(m.Since(o.base))
	return io.NopCloser(bytes.NewReader(data)), err
}

// outcome compares the documents of a step with the derived ones. Only one document may exist. Those of
// an uncounted step may be missing: its worker may have died, and nobody waits for the step.
func (v *verifier) outcome(ctx context.Context, dir string, c artifact.Commit, derived []step.Document, uncounted bool) {
	want := map[string]any{}
	for _, d := range derived {
		if a, ok := d.Body.(artifact.Answer); ok {
			v.answers = append(v.answers, answer{Answer: a, manifest: c.Manifest})
		}
		if d.Replace {
			v.replaced[d.Key] = true
			continue
		}
		want[path.Base(d.Key)] = d.Body
	}
	for _, name := range actionFiles {
		data := v.read(ctx, dir+name)
		body, expected := want[name]
		switch {
		case expected && data == nil && uncounted:
		case expected && data == nil:
			v.report(dir+name, "is missing: action.json commits a %s", c.Kind)
		case expected:
			v.compare(dir+name, data, body)
		case data != nil:
			v.report(dir+name, "is there, and action.json commits a %s", c.Kind)
		}
	}
}

// compare compares the fields of want with those of a document, which may have others, too.
func (v *verifier) compare(name string, data []byte, want any) {
	var existing, wanted map[string]any
	if !v.decode(name, data, &existing) {
		return
	}
	encoded, err := json.Marshal(want)
	if err == nil {
		err = json.Unmarshal(encoded, &wanted)
	}
	if err != nil {
		v.report(name, "cannot be verified: %v", err)
		return
	}
	for _, field := range slices.Sorted(maps.Keys(wanted)) {
		value, exists := existing[field]
		if !exists || !reflect.DeepEqual(value, wanted[field]) {
			v.report(name, "does not agree with action.json: %s", field)
		}
	}
}
