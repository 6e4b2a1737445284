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
	"time"

	"conclave/cmd/conclave/hall"

	"conclave/engine/artifact"
	"conclave/engine/config"
	"conclave/engine/coordination"
	"conclave/engine/directory"
	"conclave/engine/step"
	"conclave/engine/team"
	"conclave/worker"
)

// stepSession is a session directory that a step is to be run in.
type stepSession struct {
	order
	cli    *hall.CLI
	root   *os.Root
	store  *artifact.Dir
	local  *worker.Local
	ports  step.Ports
	agent  config.Agent
	judged config.Criteria
	found  directory.Directory
	asked  string // fingerprint of what the agent is asked
	named  bool   // the agent has its ID of the configuration
}

// openStep opens the directory and settles which agent it is. An error is a usage
// error: nothing has begun.
func openStep(c *hall.CLI, o order) (*stepSession, error) {
	s := &stepSession{order: o, cli: c, agent: o.team.Agents[0], named: o.team.Agents[0].ID != ""}
	if err := s.open(); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

func (s *stepSession) open() (err error) {
	if s.store, err = artifact.NewDir(s.dir); err != nil {
		return fmt.Errorf("open the session directory %s: %w", s.dir, err)
	}
	if s.root, err = openSession(s.dir); err != nil {
		return err
	}
	if err := s.readCriteria(); err != nil {
		return err
	}
	if s.local, err = worker.OpenLocal(worker.Models{}, s.tools); err != nil {
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
	s.asked = s.fingerprint()
	return s.read()
}

func (s *stepSession) close() {
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

// read reads the directory, and says what in it is not what it should be.
func (s *stepSession) read() error {
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

// readCriteria settles what answers are judged by: what this step is given, else
// what the directory has. The first criteria that are given are the directory's.
func (s *stepSession) readCriteria() error {
	there, err := directory.Criteria(s.root)
	if err != nil {
		return fmt.Errorf("read the evaluation criteria in %s: %w; remove the file, or mend it", s.dir, err)
	}
	switch {
	case s.criteria == nil && there == nil:
		return nil
	case s.criteria == nil:
		s.criteria = there
	case there == nil:
		err := s.store.Create(context.Background(), directory.CriteriaFile, s.criteria)
		if err != nil && !errors.Is(err, artifact.ErrExists) {
			return fmt.Errorf("write the evaluation criteria: %w", err)
		}
	case !bytes.Equal(there, s.criteria):
		s.cli.Warnf("%s of the directory has other criteria than --eval-criteria; those of --eval-criteria count for this step", directory.CriteriaFile)
	}
	s.judged, err = config.ParseCriteria(filepath.Join(s.dir, directory.CriteriaFile), s.criteria)
	return err
}

// tokenPrefix begins the execution tokens of steps that this command launched.
const tokenPrefix = "step-"

// fingerprint stands for what the agent is asked: a step that was asked something
// else is not gone on with.
func (s *stepSession) fingerprint() string {
	data, _ := json.Marshal([]string{s.query, s.agent.SystemMessage, s.agent.Subtask, string(s.criteria)}) // strings have a JSON form
	sum := sha256.Sum256(data)
	return tokenPrefix + hex.EncodeToString(sum[:6]) + "-"
}

// launched is a step that this process has the lock of.
type launched struct {
	launch  coordination.Launch
	agents  []string // whom the numbers in it stand for
	spec    step.Spec
	token   string
	lock    *directory.Lock
	resumed int // the number of the step that is gone on with; 0 for a fresh one

	last *artifact.LastAction // once the step has ended
}

// launch is the step that was interrupted, or a fresh one.
func (s *stepSession) launch(ctx context.Context) (launched, error) {
	l, found, err := s.resume(ctx)
	if err != nil || found {
		return l, err
	}
	launch, err := s.found.Launch(s.agent.ID, directory.Rules(s.team))
	if err != nil {
		return launched{}, err
	}
	token := s.asked + strings.ToLower(rand.Text())
	lock, err := directory.Hold(ctx, s.root, token)
	if err != nil {
		return launched{}, err
	}
	return s.specify(ctx, launched{launch: launch, agents: s.agents(), token: token, lock: lock})
}

// resume looks for a step of the agent that was begun and is not over: the newest
// that nobody is at work on. Of what came before the agent's last action nothing
// is gone on with: it would come too late.
func (s *stepSession) resume(ctx context.Context) (launched, bool, error) {
	a, _ := s.found.Agent(s.agent.ID)
	begun := slices.Clone(a.Uncleared)
	for _, u := range a.Unfinished {
		if u.Step > a.Last {
			begun = append(begun, u)
		}
	}
	slices.SortFunc(begun, func(a, b directory.Unfinished) int { return cmp.Compare(b.Step, a.Step) })
	for _, u := range begun {
		if !strings.HasPrefix(u.Token, tokenPrefix) || !s.journaled(u.Token) {
			continue
		}
		lock, err := directory.Hold(ctx, s.root, u.Token)
		if err != nil {
			return launched{}, false, err
		}
		if lock == nil {
			s.cli.Infof("step %d of %s is at work in another process; this is another step", u.Step, s.agent.ID)
			continue
		}
		acted := slices.ContainsFunc(a.Uncleared, func(v directory.Unfinished) bool { return v.Step == u.Step })
		l, found, err := s.take(ctx, u, lock, acted, a.Last)
		if err != nil || found {
			return l, found, err
		}
	}
	return launched{}, false, nil
}

// journaled reports whether something of a step is kept that can be gone on from.
func (s *stepSession) journaled(token string) bool { return directory.HasJournal(s.root, token) }

// take goes on with a step whose lock is held, if it should. One that has its
// action is brought to its end in any case, and is this one if it is the last.
func (s *stepSession) take(ctx context.Context, u directory.Unfinished, lock *directory.Lock, acted bool, last int) (launched, bool, error) {
	if !s.journaled(u.Token) { // it ended meanwhile
		lock.Remove()
		return launched{}, false, nil
	}
	if s.fresh && !acted {
		step.ForgetAll(ctx, s.store, artifact.InDir().Journals(u.Token))
		s.forget(u.Token, lock)
		return launched{}, false, nil
	}
	same := strings.HasPrefix(u.Token, s.asked)
	if !same && !acted {
		s.cli.Warnf("step %d of %s was interrupted and is not gone on with: it was asked something else", u.Step, s.agent.ID)
		lock.Release()
		return launched{}, false, nil
	}
	launch, agents, err := s.found.Resume(s.agent.ID, u, directory.Rules(s.team))
	if err != nil && !acted {
		s.cli.Warnf("%v", err)
		lock.Release()
		return launched{}, false, nil
	}
	if err != nil {
		launch, agents = coordination.Launch{Agent: s.agent.ID, After: u.Step - 1}, s.agents()
	}
	l, err := s.specify(ctx, launched{launch: launch, agents: agents, token: u.Token, lock: lock, resumed: u.Step})
	if err != nil || same && !s.fresh && u.Step >= last {
		return l, true, err
	}
	_, err = step.Find(ctx, s.ports, l.spec)
	s.forget(u.Token, lock)
	return launched{}, false, err
}

// specify builds the step. Without it the lock is let go.
func (s *stepSession) specify(ctx context.Context, l launched) (launched, error) {
	answers := s.found.Answers(s.root, s.store, s.dir, l.agents, s.local.Scratch())
	spec, err := team.Step{
		Layout: artifact.InDir(), Launch: l.launch, Token: l.token, Attempt: 1,
		Agents: l.agents, Query: s.query, SystemMessage: s.agent.SystemMessage,
		Criteria: team.CriteriaOf(s.judged), Files: s.agent.Tools.Files || s.agent.Tools.Shell, Window: s.ports.Window,
		Settings: team.SettingsOf(s.team), Commits: answers.Commit,
	}.Spec(ctx, s.store)
	for _, w := range answers.Warnings() {
		s.cli.Warnf("%s", w)
	}
	if err != nil {
		if l.lock != nil {
			l.lock.Release()
		}
		return launched{}, err
	}
	l.last = &artifact.LastAction{}
	l.spec = watched(directory.AdaptSpec(s.store, spec, l.launch, s.local.Scratch()), l.last)
	return l, nil
}

// watched has last be what the step writes as last_action.json.
func watched(spec step.Spec, last *artifact.LastAction) step.Spec {
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
	spec.Abandoned = func(r step.Result, cause artifact.Error, at time.Time) []step.Document {
		return note(abandoned(r, cause, at))
	}
	return spec
}

// bare is a step that came to no launch, for what is to be written of it.
func (s *stepSession) bare(ctx context.Context) (launched, error) {
	a, _ := s.found.Agent(s.agent.ID)
	return s.specify(ctx, launched{launch: coordination.Launch{Agent: s.agent.ID, After: a.Steps}, agents: s.agents()})
}

// agents are those that the numbers of a fresh step stand for.
func (s *stepSession) agents() []string { return s.found.With(s.agent.ID).IDs() }
