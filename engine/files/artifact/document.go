package artifact

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"time"

	"conclave/engine/llm"
)

// The documents of a session directory. Fields of the public contract come first; the others
// may change.

// Session is session.json, claimed once by the workflow that owns the session.
type Session struct {
	Query      string `json:"query"`
	ConfigHash string `json:"config_hash"`
	Owner
	CreatedAt time.Time `json:"created_at"`
	Caller
	Material

	// ParentRun is the ID of the workflow run that started the session as a child; empty for no child.
	ParentRun string `json:"parent_run,omitempty"`

	// Continues is the ID of the session whose conversation this session continues, or empty.
	// Turns is the number of earlier turns in history.json.
	Continues string `json:"continues,omitempty"`
	// Checks refers to the user's directory of checks; empty without one.
	Checks string `json:"checks,omitempty"`
	Turns  int    `json:"turns,omitempty"`

	// Limits lower the limits of the team.
	Limits Limits `json:"limits,omitzero"`

	// Criteria reports whether criteria came with the query; nil if unknown.
	Criteria *bool `json:"criteria,omitempty"`
}

// Limits bound the time and the dollars of a session; 0 sets no limit.
type Limits struct {
	Seconds float64 `json:"seconds,omitempty"`
	CostUSD float64 `json:"cost_usd,omitempty"`
}

// Turn is an earlier turn of a session's conversation, an item of history.json.
type Turn struct {
	Query  string `json:"query"`
	Answer string `json:"answer"`
}

// Owner is the workflow that a session or a run belongs to. A workflow that continues as
// new keeps its first run.
type Owner struct {
	WorkflowID string `json:"workflow_id"`
	FirstRunID string `json:"first_run_id"`
}

// OwnedBy returns the owner of the document that embeds it.
func (o Owner) OwnedBy() Owner { return o }

// Claim is agents/<id>/<NNN>/step.json. It reserves the step number for the execution with
// Token.
type Claim struct {
	Token     string         `json:"token"`
	SeenSteps map[string]int `json:"seen_steps"`
	Labels    []string       `json:"labels"` // shown at the start, in order
	StartedAt time.Time      `json:"started_at"`

	// Agents are the agents' IDs in the order of the step's anonymous numbers, which start at
	// 1.
	Agents []string `json:"agents,omitempty"`

	Agent string `json:"agent,omitempty"` // the agent_id of last_action.json
	Query string `json:"query,omitempty"` // the query, in a directory without session.json

	// ResumeFrom is the token of the execution that this one resumes, or empty. Uncounted is
	// set if the usage of that execution has not been counted.
	ResumeFrom string `json:"resume_from,omitempty"`
	Uncounted  bool   `json:"uncounted,omitempty"`
}

// Commit is action.json, the single write that makes a step's action take effect. The other
// files of the step are derived from it.
type Commit struct {
	Token     string          `json:"token"`
	Kind      string          `json:"kind"` // new_answer, vote, stop, …
	Payload   json.RawMessage `json:"payload"`
	Manifest  string          `json:"manifest,omitempty"` // sha256 of the workspace manifest blob; empty without files
	SeenSteps map[string]int  `json:"seen_steps"`
	Heard     int             `json:"heard,omitempty"` // number of the last human message that the step received
	Usage     llm.Usage       `json:"usage"`
	StartedAt time.Time       `json:"started_at"`

	// Transcript is the sha256 of the transcript blob.
	Transcript string `json:"transcript,omitempty"`

	Timestamp time.Time `json:"timestamp"`
}

// Answer is answer.json.
type Answer struct {
	AgentID   string    `json:"agent_id"`
	Answer    string    `json:"answer"`
	Timestamp time.Time `json:"timestamp"`
	Label     string    `json:"label"`

	// Data are those of an answer with a schema.
	Data json.RawMessage `json:"data,omitempty"`

	// Step is the step that gave the final answer; 0 in the answer of a step.
	Step int `json:"step,omitempty"`
}

// Vote is vote.json. Target is a real agent ID.
type Vote struct {
	Voter       string         `json:"voter"`
	Target      string         `json:"target"`
	Reason      string         `json:"reason"`
	SeenSteps   map[string]int `json:"seen_steps"`
	Timestamp   time.Time      `json:"timestamp"`
	TargetLabel string         `json:"target_label"`
	Confidence  *float64       `json:"confidence,omitempty"` // confidence from 0 to 1
}

// LastAction is last_action.json, the only step file that is replaced. No
// decision is based on it.
type LastAction struct {
	AgentID         string    `json:"agent_id"`
	Action          string    `json:"action"` // new_answer, vote, stop, none
	AnswerText      *string   `json:"answer_text"`
	VoteTarget      *string   `json:"vote_target"`
	VoteReason      *string   `json:"vote_reason"`
	Timestamp       time.Time `json:"timestamp"`
	StepNumber      int       `json:"step_number"`
	DurationSeconds float64   `json:"duration_seconds"`
	Cost            llm.Usage `json:"cost"`
	WorkspacePath   *string   `json:"workspace_path"`
	Error           *Error    `json:"error"`
	PartialPath     *string   `json:"partial_path"` // the files of a step without an action
}

// SecondsBetween returns the time from begin to end in seconds, to the millisecond; 0 if the clocks of workers
// differ by more. Seconds of 2861 ms would print as 2.8609999999999998.
func SecondsBetween(begin, end time.Time) float64 {
	return float64(max(0, end.Sub(begin)).Milliseconds()) / 1000
}

// LastAction returns the fields of last_action.json that every kind of commit has.
func (c Commit) LastAction(agent string, step int) LastAction {
	return LastAction{
		AgentID: agent, Action: c.Kind, Timestamp: c.Timestamp, StepNumber: step,
		DurationSeconds: SecondsBetween(c.StartedAt, c.Timestamp), Cost: c.Usage,
	}
}

// Error is a failure in a document.
type Error struct {
	Type    string `json:"type"`
	Message string `json:"message"`
}

// maxDocument is the size limit, in bytes, for reading a document.
const maxDocument = 32 << 20

// MalformedError reports a document that exists but cannot be read. Retrying does
// not help.
type MalformedError struct {
	Key string
	Err error
}

func (e *MalformedError) Error() string {
	return fmt.Sprintf("document %q is malformed: %v: repair it or remove it", e.Key, e.Err)
}

func (e *MalformedError) Unwrap() error { return e.Err }

// ReadJSON reads the document under key, or fails with ErrNotFound or a
// *MalformedError. Fields that T does not have are ignored: other programs may
// write more.
func ReadJSON[T any](ctx context.Context, store Store, key string) (T, error) {
	var doc, zero T
	data, err := readBounded(ctx, store, key)
	if err != nil {
		return zero, err
	}
	if err := json.Unmarshal(data, &doc); err != nil {
		return zero, &MalformedError{Key: key, Err: err}
	}
	return doc, nil
}

// PutJSON writes or replaces the document under key.
func PutJSON(ctx context.Context, store Store, key string, doc any) error {
	data, err := EncodeJSON(doc)
	if err != nil {
		return fmt.Errorf("encode document %q: %w", key, err)
	}
	return store.Put(ctx, key, bytes.NewReader(data))
}

// CreateJSON writes the document if the key is free, else it fails with ErrExists.
func CreateJSON(ctx context.Context, store Store, key string, doc any) error {
	data, err := EncodeJSON(doc)
	if err != nil {
		return fmt.Errorf("encode document %q: %w", key, err)
	}
	return store.Create(ctx, key, data)
}

// EncodeJSON encodes a document with two-space indentation and a final newline. Equal values
// have equal bytes.
func EncodeJSON(doc any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(doc); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// Timestamp converts t to the form of documents: UTC, whole milliseconds, no
// monotonic reading.
func Timestamp(t time.Time) time.Time { return t.UTC().Truncate(time.Millisecond) }

func readBounded(ctx context.Context, store Store, key string) ([]byte, error) {
	r, err := store.Open(ctx, key)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	data, err := io.ReadAll(io.LimitReader(r, maxDocument+1))
	if err != nil {
		return nil, fmt.Errorf("read document %q: %w", key, err)
	}
	if len(data) > maxDocument {
		return nil, &MalformedError{Key: key, Err: fmt.Errorf("it is larger than %d bytes", maxDocument)}
	}
	return data, nil
}

// Series is a series of documents that are written once: whoever creates the document with a number has
// it. The numbers begin with 1 and have no gaps.
type Series[T any] struct {
	Store Store
	Key   func(number int) string
}

// maxTaken bounds the taken numbers that Claim skips. No series is so long, so a longer run of them
// indicates another writer.
const maxTaken = 10_000

// Claim creates a document at the first free number from the given one on. judge looks at each document
// that has such a number: it reports whether it is that of an earlier attempt, which Claim then returns,
// or why the series must not go on.
func (s Series[T]) Claim(ctx context.Context, from int, document T, judge func(number int, other T) (mine bool, err error)) (number int, created bool, err error) {
	for n := from; n < from+maxTaken; n++ {
		err := CreateJSON(ctx, s.Store, s.Key(n), document)
		if !errors.Is(err, ErrExists) {
			return n, err == nil, err
		}
		other, err := ReadJSON[T](ctx, s.Store, s.Key(n))
		if err != nil {
			return n, false, err
		}
		if mine, err := judge(n, other); mine || err != nil {
			return n, false, err
		}
	}
	return 0, false, fmt.Errorf("create %s: no number is free after %d tries", s.Key(from), maxTaken)
}

// From yields the documents from a number on, in order, up to the first number that is free.
func (s Series[T]) From(ctx context.Context, number int) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for n := number; ; n++ {
			document, err := ReadJSON[T](ctx, s.Store, s.Key(n))
			if errors.Is(err, ErrNotFound) || !yield(document, err) || err != nil {
				return
			}
		}
	}
}
