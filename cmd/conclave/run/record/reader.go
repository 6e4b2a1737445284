package record

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"conclave/activities"
	acts "conclave/activities/session"
	"conclave/engine/coordination"
	"conclave/engine/files/artifact"
	"conclave/engine/step"
)

// Reader reads a run, repeatedly while it runs.
type Reader struct {
	Run

	mu       sync.Mutex
	found    map[string][]StepDir     // steps by agent
	over     map[string]*Step         // steps that do not change any more, by Dir
	once     map[string][]byte        // documents that are written once
	foreign  bool                     // the directory has no session.json
	base     map[string]artifact.File // files of the base by path, in a copy of a session; else nil
	messages []step.Message
	problems []string
}

// NewReader returns a reader of the session with a layout in a store. For a directory
// on disk root is the open directory, otherwise nil.
func NewReader(store artifact.Store, layout artifact.Layout, root *os.Root) *Reader {
	return Run{Kind: Sessions, Store: store, Layout: layout, root: root}.Reader()
}

// Reader returns a reader of the run.
func (r Run) Reader() *Reader {
	return &Reader{Run: r, over: map[string]*Step{}, once: map[string][]byte{}}
}

// ErrNone reports that there is no session.
var ErrNone = errors.New("it holds no session: it has neither session.json nor agents with steps")

// Read reads the session. A run of another kind is read as a session whose agents are the steps of
// its graph or scenario.
func (r *Reader) Read(ctx context.Context) (*Session, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.problems = nil
	if r.Kind != Sessions {
		return r.readSteps(ctx)
	}
	s := &Session{}
	if err := r.readHead(ctx, s); err != nil {
		return nil, err
	}
	if err := r.readEvents(ctx, s); err != nil {
		return nil, err
	}
	if err := r.readMessages(ctx, s); err != nil {
		return nil, err
	}
	if err := r.readChangedSteps(ctx, s); err != nil {
		return nil, err
	}
	if r.foreign && len(s.Steps) == 0 {
		return nil, ErrNone
	}
	if i := slices.IndexFunc(s.Steps, func(p *Step) bool { return p.Query != "" }); s.Query == "" && i >= 0 {
		s.Query = s.Steps[i].Query
	}
	if s.State.Status == "" {
		r.deriveState(s)
	}
	r.listAgents(s)
	s.linkSteps()
	for _, p := range s.Steps {
		p.Error = ExplainCut(s.State, p.Agent, p.Error)
	}
	s.Problems = r.problems
	return s, nil
}

// ExplainCut returns the error of an agent's last step. If the decision of the others cut the step off,
// the error says so.
func ExplainCut(s acts.State, agent string, failed *artifact.Error) *artifact.Error {
	if why := s.CutOff(agent); why != "" && failed != nil && failed.Type == activities.Cancelled {
		return &artifact.Error{Type: failed.Type, Message: why}
	}
	return failed
}

// readHead leaves the session without a status if status.json is missing or damaged.
func (r *Reader) readHead(ctx context.Context, s *Session) error {
	var session struct {
		artifact.Session
		Continues string `json:"continues"`
	}
	var criteria json.RawMessage
	found, err := r.readDocument(ctx, "session.json", &session)
	if err != nil {
		return err
	}
	r.foreign = !found
	s.ID, s.Query, s.Created, s.Continues, s.Base = session.WorkflowID, session.Query, session.CreatedAt, session.Continues, session.Base
	for name, into := range map[string]any{"config.json": &s.Team, "history.json": &s.Turns, "eval_criteria.json": &criteria} {
		if _, err := r.readDocument(ctx, name, into); err != nil {
			return err
		}
	}
	if len(session.AnswerSchema) > 0 {
		s.Team.AnswerSchema = session.AnswerSchema
	}
	s.Criteria = parseCriteria(criteria)
	data, err := r.getFile(ctx, "status.json")
	if err != nil || data == nil {
		return err
	}
	if err := json.Unmarshal(data, &s.State); err != nil {
		r.addProblem("status.json", err)
	}
	if s.State.SessionID != "" {
		s.ID = s.State.SessionID
	}
	if s.Query == "" {
		s.Query = s.State.Query
	}
	return r.readChange(ctx, s)
}

// readChange reads the change of a session to its base. A copy of a session has whole workspaces, so
// the files that are those of the base are left out of its answers.
func (r *Reader) readChange(ctx context.Context, s *Session) error {
	if s.Base == "" {
		return nil
	}
	if r.root != nil && r.base == nil {
		var base artifact.Manifest
		if _, err := r.readDocument(ctx, "base.json", &base); err != nil {
			return err
		}
		r.base = map[string]artifact.File{}
		for _, f := range base.Files {
			r.base[f.Path] = f
		}
	}
	if s.State.Final == nil {
		return nil
	}
	change, err := r.getFile(ctx, artifact.Layout{}.Final(s.State.Final.Agent, "change.patch"))
	s.Change = string(change)
	return err
}

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

func (r *Reader) readEvents(ctx context.Context, s *Session) error {
	data, err := r.getFile(ctx, "events.jsonl")
	if err != nil {
		return err
	}
	for line := range bytes.Lines(data) {
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		var e coordination.Entry
		if err := json.Unmarshal(line, &e); err != nil {
			r.addProblem("events.jsonl", err)
			continue
		}
		s.Events = append(s.Events, e)
	}
	return nil
}

func (r *Reader) readMessages(ctx context.Context, s *Session) error {
	for {
		var m step.Message
		key := strings.TrimPrefix(r.Layout.Message(len(r.messages)+1), r.Layout.Root())
		found, err := r.readDocument(ctx, key, &m)
		if err != nil || !found {
			s.Messages = slices.Clone(r.messages)
			return err
		}
		r.messages = append(r.messages, m)
	}
}

// listAgents lists the agents of the team in configured order, followed by those of other programs.
func (r *Reader) listAgents(s *Session) {
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

// readDocument decodes a write-once document. It reports whether the document exists and is valid.
func (r *Reader) readDocument(ctx context.Context, name string, into any) (bool, error) {
	data, known := r.once[name]
	if !known {
		var err error
		if data, err = r.getFile(ctx, name); err != nil || data == nil {
			return false, err
		}
		r.once[name] = data
	}
	if err := json.Unmarshal(data, into); err != nil {
		r.addProblem(name, err)
		return false, nil
	}
	return true, nil
}

// getFile returns the content of a file, or nil if it is missing.
func (r *Reader) getFile(ctx context.Context, name string) ([]byte, error) {
	data, err := r.Store.Get(ctx, r.Layout.File(name))
	if errors.Is(err, artifact.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", r.Store.URL(r.Layout.File(name)), err)
	}
	return data, nil
}

func (r *Reader) addProblem(name string, err error) {
	r.problems = append(r.problems, fmt.Sprintf("%s is left out: %v", name, err))
}

// maxReads is the maximum number of steps read at the same time.
const maxReads = 16

func (r *Reader) readChangedSteps(ctx context.Context, s *Session) error {
	if err := r.findSteps(ctx, s); err != nil {
		return err
	}
	about := s.eventsByStep()
	var mu sync.Mutex
	group, together := errgroup.WithContext(ctx)
	group.SetLimit(maxReads)
	for _, found := range r.found {
		for _, d := range found {
			judgements := countJudgements(about[d.Agent][d.Number])
			known := r.over[d.Dir]
			if known != nil && known.judged == judgements {
				mu.Lock()
				s.Steps = append(s.Steps, known.cloneStep())
				mu.Unlock()
				continue
			}
			group.Go(func() error {
				read := stepReader{r: r, p: &Step{Agent: d.Agent, Number: d.Number, Dir: d.Dir}}
				var err error
				if known != nil {
					read.p = known.cloneStep()
					err = read.readJudgements(together)
				} else {
					err = read.readStep(together)
				}
				read.p.judged = judgements
				mu.Lock()
				defer mu.Unlock()
				s.Steps = append(s.Steps, read.p)
				r.problems = append(r.problems, read.problems...)
				return err
			})
		}
	}
	if err := group.Wait(); err != nil {
		return err
	}
	for _, p := range s.Steps {
		if old := r.over[p.Dir]; p.Over && !p.partial && (old == nil || old.judged != p.judged) {
			r.over[p.Dir] = p.cloneStep()
		}
	}
	slices.SortFunc(s.Steps, func(a, b *Step) int {
		return cmp.Or(a.Started.Compare(b.Started), strings.Compare(a.Agent, b.Agent), cmp.Compare(a.Number, b.Number))
	})
	slices.Sort(r.problems)
	return nil
}

// cloneStep returns a copy of the step whose vote can be modified.
func (p *Step) cloneStep() *Step {
	c := *p
	if p.Vote != nil {
		v := *p.Vote
		c.Vote = &v
	}
	if p.Answer != nil {
		a := *p.Answer
		c.Answer = &a
	}
	return &c
}

// findSteps lists the steps until a status names the agents. Later it only looks for steps with the
// next numbers, because numbers are assigned in order.
func (r *Reader) findSteps(ctx context.Context, s *Session) error {
	if r.found == nil || len(s.State.Agents) == 0 {
		steps, err := r.Steps(ctx, "")
		if err != nil {
			return err
		}
		r.found = map[string][]StepDir{}
		for _, d := range steps {
			r.found[d.Agent] = append(r.found[d.Agent], d)
		}
	}
	for _, a := range s.State.Agents {
		for {
			next := len(r.found[a.ID]) + 1
			d := StepDir{Agent: a.ID, Number: next, Dir: artifact.Layout{}.Step(a.ID, next, "")}
			there, err := r.Store.Exists(ctx, r.Layout.File(d.Dir+"step.json"))
			if err != nil {
				return fmt.Errorf("look for step %d of %s: %w", next, a.ID, err)
			}
			if !there {
				break
			}
			r.found[a.ID] = append(r.found[a.ID], d)
		}
	}
	return nil
}

// unescapeName decodes an agent's name encoded by artifact.EscapePath.
func unescapeName(agent string) string {
	name, err := url.PathUnescape(strings.ReplaceAll(agent, "=", "%"))
	if err != nil {
		return agent
	}
	return name
}

// byEnd returns the steps in order of their ends, with running steps last.
func (s *Session) byEnd() []*Step {
	sorted := slices.Clone(s.Steps)
	slices.SortStableFunc(sorted, func(a, b *Step) int {
		if a.Ended.IsZero() != b.Ended.IsZero() {
			if a.Ended.IsZero() {
				return 1
			}
			return -1
		}
		return a.Ended.Compare(b.Ended)
	})
	return sorted
}

func (s *Session) eventsByStep() map[string]map[int][]coordination.Entry {
	all := map[string]map[int][]coordination.Entry{}
	for _, e := range s.Events {
		if e.Step == 0 {
			continue
		}
		if all[e.Agent] == nil {
			all[e.Agent] = map[int][]coordination.Entry{}
		}
		all[e.Agent][e.Step] = append(all[e.Agent][e.Step], e)
	}
	return all
}

// firstEvent returns the first event of the given kinds, or nil.
func firstEvent(events []coordination.Entry, kinds ...string) *coordination.Entry {
	for i, e := range events {
		if slices.Contains(kinds, e.Kind) {
			return &events[i]
		}
	}
	return nil
}
