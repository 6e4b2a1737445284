package record

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"
	"sync"

	"conclave/engine/artifact"
	"conclave/engine/coordination"
	"conclave/engine/step"
)

// Reader reads a session, repeatedly while it runs.
type Reader struct {
	store  artifact.Store
	layout artifact.Layout
	root   *os.Root // root of a directory that may lack status.json; nil for a bucket

	mu       sync.Mutex
	found    map[string][]int  // numbers of the steps, by the agent's part of the key
	over     map[string]*Step  // steps that do not change any more, by Dir
	once     map[string][]byte // documents that are written once
	foreign  bool              // the directory has no session.json
	messages []step.Message
	problems []string
}

// NewReader returns a reader of the session with a layout in a store. For a directory
// on disk root is the open directory, otherwise nil.
func NewReader(store artifact.Store, layout artifact.Layout, root *os.Root) *Reader {
	return &Reader{store: store, layout: layout, root: root, over: map[string]*Step{}, once: map[string][]byte{}}
}

// ErrNone reports that there is no session.
var ErrNone = errors.New("it holds no session: it has neither session.json nor agents with steps")

// Read reads the session.
func (r *Reader) Read(ctx context.Context) (*Session, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.problems = nil
	s := &Session{}
	if err := r.head(ctx, s); err != nil {
		return nil, err
	}
	if err := r.events(ctx, s); err != nil {
		return nil, err
	}
	if err := r.said(ctx, s); err != nil {
		return nil, err
	}
	if err := r.steps(ctx, s); err != nil {
		return nil, err
	}
	if r.foreign && len(s.Steps) == 0 {
		return nil, ErrNone
	}
	if i := slices.IndexFunc(s.Steps, func(p *Step) bool { return p.Query != "" }); s.Query == "" && i >= 0 {
		s.Query = s.Steps[i].Query
	}
	if s.State.Status == "" {
		r.derive(s)
	}
	r.agents(s)
	s.link()
	s.Problems = r.problems
	return s, nil
}

// head reads the documents in the root of the session.
func (r *Reader) head(ctx context.Context, s *Session) error {
	var session struct {
		artifact.Session
		Continues string `json:"continues"`
	}
	var criteria json.RawMessage
	found, err := r.read(ctx, "session.json", &session)
	if err != nil {
		return err
	}
	r.foreign = !found
	s.ID, s.Query, s.Created, s.Continues = session.WorkflowID, session.Query, session.CreatedAt, session.Continues
	for name, into := range map[string]any{"config.json": &s.Team, "history.json": &s.Turns, "eval_criteria.json": &criteria} {
		if _, err := r.read(ctx, name, into); err != nil {
			return err
		}
	}
	s.Criteria = parseCriteria(criteria)
	data, err := r.get(ctx, "status.json")
	if err != nil || data == nil {
		return err
	}
	if err := json.Unmarshal(data, &s.State); err != nil {
		r.problem("status.json", err)
	}
	if s.State.SessionID != "" {
		s.ID = s.State.SessionID
	}
	if s.Query == "" {
		s.Query = s.State.Query
	}
	return nil
}

// parseCriteria parses evaluation criteria, given as an array or an object.
func parseCriteria(data json.RawMessage) []Criterion {
	var list []Criterion
	var object struct {
		Criteria []Criterion `json:"criteria"`
	}
	if len(data) == 0 || json.Unmarshal(data, &list) == nil {
		return list
	}
	_ = json.Unmarshal(data, &object) // the contract knows no third form
	return object.Criteria
}

// events reads events.jsonl.
func (r *Reader) events(ctx context.Context, s *Session) error {
	data, err := r.get(ctx, "events.jsonl")
	if err != nil {
		return err
	}
	for line := range bytes.Lines(data) {
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		var e coordination.Entry
		if err := json.Unmarshal(line, &e); err != nil {
			r.problem("events.jsonl", err)
			continue
		}
		s.Events = append(s.Events, e)
	}
	return nil
}

// said reads the messages sent by people.
func (r *Reader) said(ctx context.Context, s *Session) error {
	for {
		var m step.Message
		key := strings.TrimPrefix(r.layout.Message(len(r.messages)+1), r.layout.Root())
		found, err := r.read(ctx, key, &m)
		if err != nil || !found {
			s.Messages = slices.Clone(r.messages)
			return err
		}
		r.messages = append(r.messages, m)
	}
}

// agents lists the agents of the team in configured order, followed by those of other programs.
func (r *Reader) agents(s *Session) {
	for _, v := range s.State.Agents {
		s.Agents = append(s.Agents, &Agent{AgentView: v})
	}
	for _, p := range s.Steps {
		a := s.Agent(p.Agent)
		if a == nil {
			a = &Agent{AgentView: coordination.AgentView{ID: p.Agent}}
			s.Agents = append(s.Agents, a)
		}
		a.Steps = append(a.Steps, p)
	}
	for _, configured := range s.Team.Agents {
		if a := s.Agent(configured.ID); a != nil {
			b := configured.Backend
			a.Model = strings.TrimPrefix(strings.TrimSuffix(path.Join(cmp.Or(b.Provider, b.Type), b.Model), "/"), "/")
		}
	}
}

// read decodes a write-once document. It reports whether the document exists and is valid.
func (r *Reader) read(ctx context.Context, name string, into any) (bool, error) {
	data, known := r.once[name]
	if !known {
		var err error
		if data, err = r.get(ctx, name); err != nil || data == nil {
			return false, err
		}
		r.once[name] = data
	}
	if err := json.Unmarshal(data, into); err != nil {
		r.problem(name, err)
		return false, nil
	}
	return true, nil
}

// get returns the content of a file, or nil if it is missing.
func (r *Reader) get(ctx context.Context, name string) ([]byte, error) {
	data, err := r.store.Get(ctx, r.layout.File(name))
	if errors.Is(err, artifact.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", r.store.URL(r.layout.File(name)), err)
	}
	return data, nil
}

func (r *Reader) problem(name string, err error) {
	r.problems = append(r.problems, fmt.Sprintf("%s is left out: %v", name, err))
}
