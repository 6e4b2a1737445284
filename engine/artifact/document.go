package artifact

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"conclave/engine/llm"
)

// The documents of a session directory. Fields of the public contract come
// first; other fields are ours and may change.

// Session is session.json, claimed once by the workflow that owns the session.
type Session struct {
	Query      string    `json:"query"`
	ConfigHash string    `json:"config_hash"`
	WorkflowID string    `json:"workflow_id"`
	FirstRunID string    `json:"first_run_id"`
	CreatedAt  time.Time `json:"created_at"`
}

// Claim is agents/<id>/<NNN>/step.json: the number is taken by Token.
type Claim struct {
	Token     string         `json:"token"`
	SeenSteps map[string]int `json:"seen_steps"`
	Labels    []string       `json:"labels"` // shown at start, in order
	StartedAt time.Time      `json:"started_at"`

	// Agents are the IDs that the anonymous numbers of the step stand for, from 1.
	Agents []string `json:"agents,omitempty"`
}

// Commit is action.json, the one write that makes a step's action real. All
// other files of the step can be made again from it.
type Commit struct {
	Token     string          `json:"token"`
	Kind      string          `json:"kind"` // new_answer, vote, stop, …
	Payload   json.RawMessage `json:"payload"`
	Manifest  string          `json:"manifest,omitempty"` // sha256 of the workspace manifest blob; empty without files
	SeenSteps map[string]int  `json:"seen_steps"`
	Heard     int             `json:"heard,omitempty"` // number of the last human message that the step was told
	Usage     llm.Usage       `json:"usage"`
	StartedAt time.Time       `json:"started_at"`

	// Transcript is the sha256 of the transcript blob: what happened is committed
	// together with the action it led to.
	Transcript string `json:"transcript,omitempty"`

	Timestamp time.Time `json:"timestamp"`
}

// Answer is answer.json.
type Answer struct {
	AgentID   string    `json:"agent_id"`
	Answer    string    `json:"answer"`
	Timestamp time.Time `json:"timestamp"`
	Label     string    `json:"label"`
}

// Vote is vote.json. Target is a real agent ID.
type Vote struct {
	Voter       string         `json:"voter"`
	Target      string         `json:"target"`
	Reason      string         `json:"reason"`
	SeenSteps   map[string]int `json:"seen_steps"`
	Timestamp   time.Time      `json:"timestamp"`
	TargetLabel string         `json:"target_label"`
}

// LastAction is last_action.json, the only step file that is replaced. Nothing
// is ever decided from it.
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
}

// Error is a failure as documents show it.
type Error struct {
	Type    string `json:"type"`
	Message string `json:"message"`
}

// Manifest is workspace.json: the files of a workspace, sorted by path.
type Manifest struct {
	Files []File `json:"files"`
}

// File is one entry of a Manifest: a regular file with content, or a symbolic
// link with a target inside the workspace.
type File struct {
	Path   string `json:"path"` // slash-separated, relative
	Mode   uint32 `json:"mode"` // permission bits
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256,omitempty"`
	Link   string `json:"link,omitempty"`
}

// MaxDocument is the size in bytes up to which a document is read: a larger one
// was not written by this package.
const MaxDocument = 32 << 20

// MalformedError says that a document is there but cannot be read. Trying again
// does not help.
type MalformedError struct {
	Key string
	Err error
}

func (e *MalformedError) Error() string {
	return fmt.Sprintf("document %q is malformed: %v: repair it or remove it", e.Key, e.Err)
}

func (e *MalformedError) Unwrap() error { return e.Err }

// ReadJSON reads the document under key, or fails with ErrNotFound. Fields that
// T does not have are ignored: directories written by other programs may hold
// more. A document that cannot be read is a *MalformedError.
func ReadJSON[T any](ctx context.Context, store Store, key string) (T, error) {
	var doc T
	data, err := readBounded(ctx, store, key)
	if err != nil {
		return doc, err
	}
	if err := json.Unmarshal(data, &doc); err != nil {
		var zero T
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

// CreateJSON writes the document only if the key is free, else it fails with ErrExists.
func CreateJSON(ctx context.Context, store Store, key string, doc any) error {
	data, err := EncodeJSON(doc)
	if err != nil {
		return fmt.Errorf("encode document %q: %w", key, err)
	}
	return store.Create(ctx, key, data)
}

// EncodeJSON is the form of every document: indented by two spaces, ending in a
// newline, the same bytes for the same value. Raw JSON inside is indented too.
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

// Timestamp is t as documents hold it: UTC (so that it ends in Z), in whole
// milliseconds, without a monotonic reading.
func Timestamp(t time.Time) time.Time { return t.UTC().Truncate(time.Millisecond) }

func readBounded(ctx context.Context, store Store, key string) ([]byte, error) {
	r, err := store.Open(ctx, key)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	data, err := io.ReadAll(io.LimitReader(r, MaxDocument+1))
	if err != nil {
		return nil, fmt.Errorf("read document %q: %w", key, err)
	}
	if len(data) > MaxDocument {
		return nil, &MalformedError{Key: key, Err: fmt.Errorf("it is larger than %d bytes", MaxDocument)}
	}
	return data, nil
}
