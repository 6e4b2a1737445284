//go:build simulate

package stagetest_test

import (
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strings"

	"github.com/anishathalye/porcupine"
	commonpb "go.temporal.io/api/common/v1"

	sessionacts "conclave/activities/session"
	"conclave/engine/files/artifact"
)

// operation is a call on a document that is written once, as its caller has seen it.
type operation struct {
	key    string
	create bool
	value  content // what is created
}

// content tells the contents of documents from each other. Whoever knows only the kind of an action leaves
// the sum out.
type content struct{ kind, sum string }

func (c content) fits(d content) bool {
	return c.kind == d.kind && (c.sum == d.sum || c.sum == "" || d.sum == "")
}

// outcome is what the caller of an operation has learned.
type outcome struct {
	known bool // else it may have taken effect, or may still do so
	won   bool // it has created the document
	there bool
	value content // what it has read
}

func contentOf(body []byte) content {
	var c artifact.Commit
	_ = json.Unmarshal(body, &c)
	return content{kind: c.Kind, sum: artifact.SumOf(body)}
}

// creates notes the beginning of a creation, and returns the function that notes its end.
func (f *facts) creates(key string, body []byte) (ended func(error)) {
	if !isOnce(key) || strings.Contains(key, "/blobs/") {
		return func(error) {}
	}
	at := f.note(porcupine.Operation{Input: operation{key, true, contentOf(body)}, Output: outcome{}, Call: f.clock(), Return: math.MaxInt64})
	return func(err error) {
		if err == nil || errors.Is(err, artifact.ErrExists) {
			f.conclude(at, outcome{known: true, won: err == nil, there: true})
		}
	}
}

// reads notes the result of reading a document.
func (f *facts) reads(key string, began int64, body []byte, err error) {
	if !isOnce(key) || strings.Contains(key, "/blobs/") || err != nil && !errors.Is(err, artifact.ErrNotFound) {
		return
	}
	o := outcome{known: true, there: err == nil}
	if o.there {
		o.value = contentOf(body)
	}
	f.note(porcupine.Operation{Input: operation{key: key}, Output: o, Call: began, Return: f.clock()})
}

// reported notes the action that an attempt has told its workflow: a read of the commit.
func (f *facts) reported(at *execution, result *commonpb.Payloads, err error) {
	var r sessionacts.StepResult
	if err != nil || at.name != "RunStep" || payloads.FromPayloads(result, &r) != nil || r.Action == "" {
		return
	}
	var in sessionacts.StepInput
	if payloads.FromPayloads(at.args, &in) != nil || in.Launch.Purpose != "" {
		return
	}
	key := artifact.InBucket(in.Session).Step(in.Launch.Agent, r.Step, "action.json")
	f.note(porcupine.Operation{
		Input: operation{key: key}, Output: outcome{known: true, there: true, value: content{kind: string(r.Action)}}, Call: at.tick, Return: f.clock(),
	})
}

// clock counts the beginnings and ends of operations.
func (f *facts) clock() int64 {
	f.w.mu.Lock()
	defer f.w.mu.Unlock()
	f.ticks++
	return f.ticks
}

func (f *facts) note(o porcupine.Operation) (at int) {
	f.w.mu.Lock()
	defer f.w.mu.Unlock()
	f.history = append(f.history, o)
	return len(f.history) - 1
}

func (f *facts) conclude(at int, o outcome) {
	end := f.clock()
	f.w.mu.Lock()
	defer f.w.mu.Unlock()
	f.history[at].Output, f.history[at].Return = o, end
}

// written once: a document is absent until one creation wins, and then has its content for ever.
var registers = porcupine.NondeterministicModel{
	Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
		byKey := map[string][]porcupine.Operation{}
		for _, o := range history {
			key := o.Input.(operation).key
			byKey[key] = append(byKey[key], o)
		}
		var parts [][]porcupine.Operation
		for _, key := range sortedKeys(byKey) {
			parts = append(parts, byKey[key])
		}
		return parts
	},
	Init: func() []any { return []any{content{}} },
	Step: func(state, input, output any) []any {
		now, in, out := state.(content), input.(operation), output.(outcome)
		absent := now == content{}
		switch {
		case !out.known && absent:
			return []any{now, in.value}
		case !out.known:
			return []any{now}
		case in.create && out.won && absent:
			return []any{in.value}
		case in.create && !out.won && !absent:
			return []any{now}
		case !in.create && out.there != absent && (absent || now.fits(out.value)):
			return []any{now}
		}
		return nil
	},
}

// checkHistory requires that the creations and reads of a run are those of such documents.
func (f *facts) checkHistory() {
	model := registers.ToModel()
	for _, part := range registers.Partition(f.history) {
		if slices.ContainsFunc(part, func(o porcupine.Operation) bool { return o.Input.(operation).create }) && !porcupine.CheckOperations(model, part) {
			f.w.breaks(linearizable, "%s: %+v", part[0].Input.(operation).key, part)
		}
	}
}
