package step

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"conclave/cmd/conclave/hall"

	"conclave/engine/artifact"
	"conclave/engine/config"
	"conclave/engine/coordination"
	"conclave/engine/directory"
	"conclave/engine/step"
	"conclave/engine/team"
	"conclave/worker"
)

// runner runs one step of an agent in a session directory.
type runner struct {
	order
	cli    *hall.CLI
	root   *os.Root
	store  *artifact.Dir
	layout artifact.Layout // layout with the base of the session, if any

	contexts []step.Context
	local    *worker.Local
	ports    step.Ports
	agent    config.Agent
	judged   config.Criteria
	turns    []artifact.Turn // earlier turns of the conversation
	found    directory.Directory
	prefix   string // prefix of the tokens of steps with the same prompt
	named    bool   // the configuration has the agent's ID
}

// newRunner opens the directory and chooses the agent's ID. Its errors are usage errors.
func newRunner(c *hall.CLI, o order) (*runner, error) {
	s := &runner{order: o, cli: c, agent: o.team.Agents[0], named: o.team.Agents[0].ID != ""}
	if err := s.open(); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

func (s *runner) open() (err error) {
	if s.store, err = artifact.NewDir(s.dir); err != nil {
		return fmt.Errorf("open the session directory %s: %w", s.dir, err)
	}
	if s.root, err = openSession(s.dir); err != nil {
		return err
	}
	if err := s.readCriteria(); err != nil {
		return err
	}
	if s.turns, err = directory.Turns(s.root); err == nil {
		err = team.CheckTurns(s.query, s.turns)
	}
	if err != nil {
		return fmt.Errorf("read the earlier turns in %s: %w; repair the file, or remove it", s.dir, err)
	}
	if s.local, err = worker.OpenLocal(s.worker.Models, s.worker.Tools); err != nil {
		return err
	}
	if !s.named {
		if s.agent.ID, err = directory.Reserve(s.root); err != nil {
			return err
		}
		s.team.Agents = []config.Agent{s.agent}
	}
	if err := directory.Usable(s.root, s.agent.ID); err != nil {
		return fmt.Errorf("use the session directory %s: %w", s.dir, err)
	}
	if s.ports, err = s.local.Ports(s.agent); err != nil {
		return err
	}
	s.ports.Store = s.store
	s.prefix = s.fingerprint()
	return s.read()
}

func (s *runner) close() {
	if s.local != nil {
		s.local.Close()
	}
	if s.root != nil {
		_ = s.root.Close()
	}
	if s.store != nil {
		_ = s.store.Close()
	}
}

// read reads the directory and warns of malformed files.
func (s *runner) read() error {
	found, warnings, err := directory.Read(s.root)
	if err != nil {
		return fmt.Errorf("read the session directory %s: %w", s.dir, err)
	}
	for _, w := range warnings {
		s.cli.Warnf("%s", w)
	}
	s.found = found
	return nil
}

// readCriteria reads the criteria of --eval-criteria, or else those of the directory, which
// stores the first ones given.
func (s *runner) readCriteria() error {
	stored, err := directory.Criteria(s.root)
	if err != nil {
		return fmt.Errorf("read the evaluation criteria in %s: %w; remove the file, or repair it", s.dir, err)
	}
	switch {
	case s.criteria == nil && stored == nil:
		return nil
	case s.criteria == nil:
		s.criteria = stored
	case stored == nil:
		err := s.store.Create(context.Background(), directory.CriteriaFile, s.criteria)
		if err != nil && !errors.Is(err, artifact.ErrExists) {
			return fmt.Errorf("write the evaluation criteria: %w", err)
		}
	case !bytes.Equal(stored, s.criteria):
		s.cli.Warnf("%s of the directory has other criteria than --eval-criteria; those of --eval-criteria count for this step", directory.CriteriaFile)
	}
	s.judged, err = config.ParseCriteria(filepath.Join(s.dir, directory.CriteriaFile), s.criteria)
	return err
}

// tokenPrefix is the prefix of this command's execution tokens.
const tokenPrefix = "step-"

// fingerprint returns the token prefix for this query, conversation, agent and criteria.
func (s *runner) fingerprint() string {
	prompt := []string{s.query, s.agent.SystemMessage, s.agent.Subtask, string(s.criteria)}
	for _, t := range s.turns {
		prompt = append(prompt, t.Query, t.Answer)
	}
	data, _ := json.Marshal(prompt) // encoding of strings cannot fail
	sum := sha256.Sum256(data)
	return tokenPrefix + hex.EncodeToString(sum[:6]) + "-"
}

// prepared is a step that is ready to run and locked by this process.
type prepared struct {
	launch  coordination.Launch
	agents  []string // agents in the order of the launch's numbers
	spec    step.Spec
	token   string
	lock    *directory.Lock // nil if the step could not be prepared
	resumed int             // the number of the interrupted step; 0 for a new one

	last *artifact.LastAction // set when the step ends
}

// prepare prepares the interrupted step of the agent, or a new one.
func (s *runner) prepare(ctx context.Context) (prepared, error) {
	l, found, err := s.resumeNewest(ctx)
	if err != nil || found {
		return l, err
	}
	launch, err := s.found.Launch(s.agent.ID, directory.Rules(s.team))
	if err != nil {
		return prepared{}, err
	}
	launch.FilesFrom = s.newestLeft()
	token := s.prefix + strings.ToLower(rand.Text())
	lock, err := directory.Hold(ctx, s.root, token)
	if err != nil {
		return prepared{}, err
	}
	return s.specify(ctx, prepared{launch: launch, agents: s.agents(), token: token, lock: lock})
}

// newestLeft returns the token of the agent's newest step without an action, or "". A
// new step receives that step's files.
func (s *runner) newestLeft() string {
	a, _ := s.found.Agent(s.agent.ID)
	newest := ""
	for _, u := range a.Unfinished {
		if u.Step > a.Last && strings.HasPrefix(u.Token, s.prefix) && !s.fresh {
			newest = u.Token
		}
	}
	return newest
}

// resumeNewest prepares the newest unfinished step after the agent's last action.
func (s *runner) resumeNewest(ctx context.Context) (prepared, bool, error) {
	a, _ := s.found.Agent(s.agent.ID)
	begun := slices.Clone(a.Uncleared)
	for _, u := range a.Unfinished {
		if u.Step > a.Last {
			begun = append(begun, u)
		}
	}
	slices.SortFunc(begun, func(a, b directory.Unfinished) int { return cmp.Compare(b.Step, a.Step) })
	for _, u := range begun {
		if !strings.HasPrefix(u.Token, tokenPrefix) || !directory.HasJournal(s.root, u.Token) {
			continue
		}
		lock, err := directory.Hold(ctx, s.root, u.Token)
		if err != nil {
			return prepared{}, false, err
		}
		if lock == nil {
			s.cli.Infof("step %d of %s runs in another process; this is another step", u.Step, s.agent.ID)
			continue
		}
		acted := slices.ContainsFunc(a.Uncleared, func(v directory.Unfinished) bool { return v.Step == u.Step })
		l, found, err := s.resume(ctx, u, lock, acted, a.Last)
		if err != nil || found {
			return l, found, err
		}
	}
	return prepared{}, false, nil
}

// resume prepares an unfinished, locked step if it can be continued. A step that has
// acted is always completed, but it is the step to run only if it is the last one.
func (s *runner) resume(ctx context.Context, u directory.Unfinished, lock *directory.Lock, acted bool, last int) (prepared, bool, error) {
	if !directory.HasJournal(s.root, u.Token) { // another process ended it
		lock.Remove()
		return prepared{}, false, nil
	}
	if s.fresh && !acted {
		s.leave(ctx, u)
		step.Forget(ctx, s.store, artifact.Layout{}.Journals(u.Token))
		s.forget(u.Token, lock)
		return prepared{}, false, nil
	}
	same := strings.HasPrefix(u.Token, s.prefix)
	if !same && !acted {
		s.cli.Warnf("step %d of %s was interrupted and is not continued: it has another question", u.Step, s.agent.ID)
		lock.Release()
		return prepared{}, false, nil
	}
	launch, agents, err := s.found.Resume(s.agent.ID, u, directory.Rules(s.team))
	if err != nil && !acted {
		s.cli.Warnf("%v", err)
		lock.Release()
		return prepared{}, false, nil
	}
	if err != nil {
		launch, agents = coordination.Launch{Agent: s.agent.ID, After: u.Step - 1}, s.agents()
	}
	l, err := s.specify(ctx, prepared{launch: launch, agents: agents, token: u.Token, lock: lock, resumed: u.Step})
	if err != nil || same && !s.fresh && u.Step >= last {
		return l, true, err
	}
	_, err = step.Find(ctx, s.ports, l.spec)
	s.forget(u.Token, lock)
	return prepared{}, false, err
}

// leave keeps the files and the transcript of a step that will not be continued.
func (s *runner) leave(ctx context.Context, u directory.Unfinished) {
	spec := team.Step{Launch: coordination.Launch{Agent: s.agent.ID, After: u.Step - 1}, Token: u.Token}.Place()
	r, err := step.Recover(ctx, s.ports, spec)
	if err == nil {
		err = step.Leave(ctx, s.ports, spec, r)
	}
	if err != nil {
		s.cli.Warnf("the files of step %d are lost: %v", u.Step, err)
	}
}

// specify builds the specification of a step. If that fails, it releases the step's lock.
func (s *runner) specify(ctx context.Context, l prepared) (prepared, error) {
	answers := s.found.Answers(s.root, s.store, s.layout, s.dir, l.agents, s.ports.Scratch)
	spec, err := team.Step{
		Layout: s.layout, Contexts: s.contexts, Launch: l.launch, Token: l.token, Attempt: 1,
		Agents: l.agents, Open: true, Query: s.query, Turns: s.turns, SystemMessage: s.agent.SystemMessage,
		Criteria: s.judged, Files: s.agent.Tools.Files || s.agent.Tools.Shell, Window: s.ports.Window,
		Team: s.team, Commits: answers.Commit, Scratch: s.ports.Scratch,
	}.Spec(ctx, s.store)
	for _, w := range answers.Warnings() {
		s.cli.Warnf("%s", w)
	}
	if err != nil {
		if l.lock != nil {
			l.lock.Release()
		}
		return prepared{}, err
	}
	l.last = &artifact.LastAction{}
	spec.Query = s.query
	l.spec = capture(directory.AdaptSpec(s.store, spec), l.last)
	return l, nil
}

// capture stores the last_action.json written by the step in last.
func capture(spec step.Spec, last *artifact.LastAction) step.Spec {
	note := func(documents []step.Document) []step.Document {
		for _, d := range documents {
			if written, ok := d.Body.(artifact.LastAction); ok {
				*last = written
			}
		}
		return documents
	}
	derived, abandoned := spec.Documents, spec.Abandoned
	spec.Documents = func(number int, c artifact.Commit) ([]step.Document, error) {
		documents, err := derived(number, c)
		return note(documents), err
	}
	spec.Abandoned = func(last artifact.LastAction) []step.Document { return note(abandoned(last)) }
	return spec
}

// unlaunched returns a step that could not be launched, in order to record its failure.
func (s *runner) unlaunched(ctx context.Context) (prepared, error) {
	a, _ := s.found.Agent(s.agent.ID)
	return s.specify(ctx, prepared{launch: coordination.Launch{Agent: s.agent.ID, After: a.Steps}, agents: s.agents()})
}

// agents returns all agents of the directory and the agent of this step.
func (s *runner) agents() []string { return s.found.With(s.agent.ID).IDs() }
