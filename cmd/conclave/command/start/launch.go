package start

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
	"reflect"
	"slices"
	"strings"

	"conclave/activities"
	"conclave/cmd/conclave/cli"
	"conclave/engine/config"
	"conclave/engine/coordination"
	"conclave/engine/files/artifact"
	"conclave/engine/files/snapshot"
	"conclave/engine/session"
	"conclave/engine/session/directory"
	"conclave/engine/step"
	"conclave/worker"
)

// stepRunner runs one step of an agent in a session directory.
type stepRunner struct {
	stepOrder
	cli    *cli.CLI
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

// newStepRunner opens the directory and chooses the agent's ID. Its errors are usage errors.
func newStepRunner(c *cli.CLI, o stepOrder) (*stepRunner, error) {
	s := &stepRunner{stepOrder: o, cli: c, agent: o.team.Agents[0], named: o.team.Agents[0].ID != ""}
	if err := s.openDirectory(); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

func (s *stepRunner) openDirectory() (err error) {
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
		err = session.CheckTurns(s.query, s.turns)
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
	settled, why, err := activities.SettleShell(context.Background(), s.worker.Tools.Confined, s.store, artifact.Layout{}, s.agent)
	if err != nil {
		return err
	}
	if s.agent = settled[0]; why != "" {
		s.cli.Infof("%s cannot run commands, so nothing will be run: %s", s.agent.ID, why)
	}
	if s.ports, err = s.local.Ports(s.agent); err != nil {
		return err
	}
	s.ports.Store, s.ports.Gate = s.store, s.worker.Tools.Gate(s.team.Orchestrator.Approvals)
	s.prefix = s.promptPrefix()
	return s.readDirectory()
}

func (s *stepRunner) close() {
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

func (s *stepRunner) readDirectory() error {
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
func (s *stepRunner) readCriteria() error {
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

// promptPrefix returns the token prefix for this query, conversation, agent and criteria.
func (s *stepRunner) promptPrefix() string {
	prompt := []string{s.query, s.agent.SystemMessage, s.agent.Subtask, string(s.criteria)}
	for _, t := range s.turns {
		prompt = append(prompt, t.Query, t.Answer)
	}
	data, _ := json.Marshal(prompt) // encoding of strings cannot fail
	sum := sha256.Sum256(data)
	return tokenPrefix + hex.EncodeToString(sum[:6]) + "-"
}

// preparedStep is a step that is ready to run and locked by this process.
type preparedStep struct {
	launch  coordination.Launch
	agents  []string // agents in the order of the launch's numbers
	spec    step.Spec
	token   string
	lock    *directory.Lock // nil if the step could not be prepared
	resumed int             // the number of the interrupted step; 0 for a new one

	last *artifact.LastAction // set when the step ends
}

func (s *stepRunner) prepareStep(ctx context.Context) (preparedStep, error) {
	l, found, err := s.resumeNewest(ctx)
	if err != nil || found {
		return l, err
	}
	launch, err := s.found.Launch(s.agent.ID, directory.Rules(s.team))
	if err != nil {
		return preparedStep{}, err
	}
	launch.FilesFrom = s.newestLeft()
	token := s.prefix + strings.ToLower(rand.Text())
	lock, err := directory.Hold(ctx, s.root, token)
	if err != nil {
		return preparedStep{}, err
	}
	return s.specifyStep(ctx, preparedStep{launch: launch, agents: s.allAgents(), token: token, lock: lock})
}

// newestLeft returns the token of the agent's newest step without an action, or "". A
// new step receives that step's files.
func (s *stepRunner) newestLeft() string {
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
func (s *stepRunner) resumeNewest(ctx context.Context) (preparedStep, bool, error) {
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
			return preparedStep{}, false, err
		}
		if lock == nil {
			s.cli.Infof("step %d of %s runs in another process; this is another step", u.Step, s.agent.ID)
			continue
		}
		acted := slices.ContainsFunc(a.Uncleared, func(v directory.Unfinished) bool { return v.Step == u.Step })
		l, found, err := s.resumeStep(ctx, u, lock, acted, a.Last)
		if err != nil || found {
			return l, found, err
		}
	}
	return preparedStep{}, false, nil
}

// resumeStep prepares an unfinished, locked step if it can be continued. A step that has
// acted is always completed, but it is the step to run only if it is the last one.
func (s *stepRunner) resumeStep(ctx context.Context, u directory.Unfinished, lock *directory.Lock, acted bool, last int) (preparedStep, bool, error) {
	if !directory.HasJournal(s.root, u.Token) { // another process ended it
		lock.Remove()
		return preparedStep{}, false, nil
	}
	if s.fresh && !acted {
		s.leaveFiles(ctx, u)
		step.Forget(ctx, s.store, artifact.Layout{}.Journals(u.Token))
		s.forgetStep(u.Token, lock)
		return preparedStep{}, false, nil
	}
	same := strings.HasPrefix(u.Token, s.prefix)
	if !same && !acted {
		s.cli.Warnf("step %d of %s was interrupted and is not continued: it has another question", u.Step, s.agent.ID)
		lock.Release()
		return preparedStep{}, false, nil
	}
	launch, agents, err := s.found.Resume(s.agent.ID, u, directory.Rules(s.team))
	if err != nil && !acted {
		s.cli.Warnf("%v", err)
		lock.Release()
		return preparedStep{}, false, nil
	}
	if err != nil {
		launch, agents = coordination.Launch{Agent: s.agent.ID, After: u.Step - 1}, s.allAgents()
	}
	l, err := s.specifyStep(ctx, preparedStep{launch: launch, agents: agents, token: u.Token, lock: lock, resumed: u.Step})
	if err != nil || same && !s.fresh && u.Step >= last {
		return l, true, err
	}
	_, err = step.Find(ctx, s.ports, l.spec)
	s.forgetStep(u.Token, lock)
	return preparedStep{}, false, err
}

func (s *stepRunner) leaveFiles(ctx context.Context, u directory.Unfinished) {
	spec := session.Step{Launch: coordination.Launch{Agent: s.agent.ID, After: u.Step - 1}, Token: u.Token}.Place()
	r, err := step.Recover(ctx, s.ports, spec)
	if err == nil {
		err = step.Leave(ctx, s.ports, spec, r)
	}
	if err != nil {
		s.cli.Warnf("the files of step %d are lost: %v", u.Step, err)
	}
}

func (s *stepRunner) specifyStep(ctx context.Context, l preparedStep) (preparedStep, error) {
	answers := s.found.Answers(s.root, s.store, s.layout, s.dir, l.agents, s.ports.Scratch)
	spec, err := session.Step{
		Layout: s.layout, Contexts: s.contexts, Launch: l.launch, Token: l.token, Attempt: 1,
		Agents: l.agents, Open: true, Query: s.query, Turns: s.turns, SystemMessage: s.agent.SystemMessage,
		Criteria: s.judged, Files: s.agent.Tools.Files || s.agent.Tools.Shell.On(), Window: s.ports.Window,
		Team: s.team, Commits: answers.Commit, Scratch: s.ports.Scratch,
	}.Spec(ctx, s.store)
	for _, w := range answers.Warnings() {
		s.cli.Warnf("%s", w)
	}
	if err != nil {
		if l.lock != nil {
			l.lock.Release()
		}
		return preparedStep{}, err
	}
	l.last = &artifact.LastAction{}
	spec.Query = s.query
	l.spec = captureLast(directory.AdaptSpec(s.store, spec), l.last)
	return l, nil
}

func captureLast(spec step.Spec, last *artifact.LastAction) step.Spec {
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

func (s *stepRunner) unlaunchedStep(ctx context.Context) (preparedStep, error) {
	a, _ := s.found.Agent(s.agent.ID)
	return s.specifyStep(ctx, preparedStep{launch: coordination.Launch{Agent: s.agent.ID, After: a.Steps}, agents: s.allAgents()})
}

func (s *stepRunner) allAgents() []string { return s.found.With(s.agent.ID).IDs() }

// startFile names the stored directories, under base/, that the steps of a session
// directory start from.
const startFile = snapshot.Root + "start.json"

// startFrom stores the directories of --base and --context, or opens those of the first
// step that had any. All steps of a directory start from the same files.
func (s *stepRunner) startFrom(ctx context.Context) error {
	recorded, err := artifact.ReadJSON[artifact.Material](ctx, s.store, startFile)
	if err != nil && !errors.Is(err, artifact.ErrNotFound) {
		return fmt.Errorf("read the files that the steps start from: %w", err)
	}
	given, err := s.material.Store(ctx, s.cli, s.store)
	if err != nil {
		return err
	}
	switch {
	case !given.Given():
	case !recorded.Given():
		if err := artifact.CreateJSON(ctx, s.store, startFile, given); err != nil {
			return fmt.Errorf("record the files that the steps start from: %w", err)
		}
		recorded = given
	case !reflect.DeepEqual(given, recorded):
		return fmt.Errorf("the steps of %s start from other files than --base and --context have now; leave the flags out, or name a new session directory", s.dir)
	}
	trees := snapshot.NewTrees(s.store, "", 0)
	if s.layout, err = activities.Start(ctx, trees, s.layout, recorded); err != nil {
		return fmt.Errorf("open the base of %s: %w", s.dir, err)
	}
	if s.contexts, err = activities.Contexts(ctx, trees, recorded); err != nil {
		return fmt.Errorf("open the context of %s: %w", s.dir, err)
	}
	return nil
}
