package coordination_test

import (
	"encoding/json"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	c "conclave/engine/coordination"
	"conclave/engine/llm"
)

// pick chooses a number in [0, n).
type pick func(n int) int

// TestProperties plays random sessions, with honest, late, impossible and
// invented events, and holds them to the protocol after every batch.
func TestProperties(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		batches := rapid.IntRange(0, 30).Draw(t, "batches")
		playRandom(t, func(n int) int { return rapid.IntRange(0, n-1).Draw(t, "pick") }, func() bool {
			batches--
			return batches >= 0
		})
	})
}

// TestPropertiesOfEvenChance is the same with all choices equally likely, which
// splits votes more often; a failure names the seed that it comes from.
func TestPropertiesOfEvenChance(t *testing.T) {
	t.Parallel()
	for seed := range uint64(200) {
		chance := rand.New(rand.NewPCG(seed, 0))
		batches := 30
		passed := t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			playRandom(t, chance.IntN, func() bool {
				batches--
				return batches >= 0
			})
		})
		require.True(t, passed)
	}
}

// FuzzSession is the same over a script of bytes: one byte for every choice.
func FuzzSession(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{2, 0, 1, 3, 0})
	f.Add([]byte(strings.Repeat("\x02\x00\x00\x01\x00\x05\x03", 20)))
	f.Fuzz(func(t *testing.T, script []byte) {
		script = script[:min(len(script), 1000)] // longer ones only go on after the decision
		playRandom(t, func(n int) int {
			if len(script) == 0 {
				return 0
			}
			choice := int(script[0]) % n
			script = script[1:]
			return choice
		}, func() bool { return len(script) > 0 })
	})
}

// session is a random session under observation.
type session struct {
	*player
	pick   pick
	config c.Config // as New reads it

	fed     [][]c.Event   // all batches so far
	given   [][]c.Command // what each of them led to
	running map[string]c.LaunchID
	failed  map[string]bool
	ended   map[string]int
	last    map[string]int // number of the last finished step
	due     []c.Accepted   // what must be on the ledger: who, step, action and target
	forced  c.Status
	revotes int
	used    llm.Usage
}

func playRandom(t require.TestingT, choose pick, more func() bool) {
	config := randomConfig(choose)
	s := &session{
		player: newPlayer(config), pick: choose,
		running: map[string]c.LaunchID{}, failed: map[string]bool{},
		ended: map[string]int{}, last: map[string]int{},
	}
	s.config = s.state.Config
	s.feed(t, nil)
	for more() && !s.state.Done() {
		s.feed(t, s.randomBatch())
	}
	// Every session in which the launched steps end comes to a decision.
	for !s.state.Done() {
		s.feed(t, s.endSomeStep())
	}
	decided := s.state.Decision()
	for range 3 {
		s.feed(t, s.randomBatch())
	}
	require.Equal(t, decided, s.state.Decision(), "nothing follows a decision")
	s.replay(t, config)
	s.rename(t, config)
}

func randomConfig(choose pick) c.Config {
	ids := []string{"b", "agent_a", "zed", "a", "m1"}[:choose(6)]
	return c.Config{
		Agents:           ids,
		OnSplit:          []c.OnSplit{c.SplitRevote, c.SplitPlurality, c.SplitFail}[choose(3)],
		MaxRevotes:       choose(3),
		MaxStepsPerAgent: 1 + choose(6),
		OnAgentFailure:   []c.OnAgentFailure{c.FailureContinue, c.FailureContinue, c.FailureFail}[choose(3)],
	}
}

// feed steps a batch and drains once. Beside the state goes a twin that comes
// back from JSON before every event: nothing that follows may differ.
func (s *session) feed(t require.TestingT, events []c.Event) {
	for _, e := range events {
		twin := revived(t, s.state)
		s.observe(e)
		s.step(e)
		twin.Step(e)
		require.Equal(t, marshal(t, s.state), marshal(t, twin), "after %#v", e)
	}
	twin := revived(t, s.state)
	wasDone := s.state.Done()
	idle := len(s.running) == 0
	commands := s.drain()
	require.Equal(t, commands, twin.Drain())
	require.Equal(t, marshal(t, s.state), marshal(t, twin))
	require.Empty(t, revived(t, s.state).Drain(), "nothing comes twice")
	s.fed, s.given = append(s.fed, events), append(s.given, commands)

	if wasDone {
		require.Empty(t, commands, "nothing follows a decision")
		return
	}
	s.checkCommands(t, commands, idle)
	s.checkState(t)
}

// observe keeps what the checks need to know of an event.
func (s *session) observe(e c.Event) {
	var launch c.LaunchID
	var usage llm.Usage
	switch e := e.(type) {
	case c.Answered:
		launch, usage = e.Launch, e.Usage
	case c.Voted:
		launch, usage = e.Launch, e.Usage
	case c.Failed:
		launch, usage = e.Launch, e.Usage
	case c.Finish:
		s.force(c.Finished)
	case c.TimeUp:
		s.force(c.Timeout)
	}
	for _, agent := range s.config.Agents {
		if launch == "" || s.running[agent] != launch {
			continue
		}
		delete(s.running, agent)
		s.used = s.used.Add(usage)
		if s.state.Done() {
			continue
		}
		s.ended[agent]++
		s.judge(agent, e)
	}
}

// judge says whether the action that ends a step must be accepted.
func (s *session) judge(agent string, e c.Event) {
	due := c.Accepted{Seq: len(s.due) + 1, Agent: agent}
	accepted := false
	switch e := e.(type) {
	case c.Answered:
		due.Step, due.Action = e.Step, c.NewAnswer
		accepted = e.Step > s.last[agent]
	case c.Voted:
		due.Step, due.Action, due.Target = e.Step, c.Vote, e.Target
		_, answered := oracle{ledger: s.due}.latest(e.Target)
		accepted = e.Step > s.last[agent] && len(s.launches[e.Launch].Shown) > 0 && answered
	case c.Failed:
		due.Step = e.Step
		s.failed[agent] = true
	}
	s.last[agent] = max(s.last[agent], due.Step)
	if accepted {
		s.due = append(s.due, due)
	}
}

func (s *session) force(status c.Status) {
	if s.forced == "" {
		s.forced = status
	}
}

// checkCommands holds one Drain to the rules.
func (s *session) checkCommands(t require.TestingT, commands []c.Command, idle bool) {
	order := map[string]int{"Record": 0, "Cancel": 1, "Launch": 2, "Done": 2}
	kinds := make([]int, 0, len(commands))
	for _, command := range commands {
		kinds = append(kinds, order[kind(command)])
	}
	require.True(t, slices.IsSorted(kinds), "order of %v", commands)
	require.Len(t, s.ledger, len(s.due))
	for _, record := range only[c.Record](commands) {
		s.checkRecord(t, record.Entry)
	}
	o := s.oracle()
	wave := launches(commands)
	if len(wave) > 0 {
		require.True(t, idle, "a wave waits for the one before")
		s.checkWave(t, o, wave)
	}
	done := only[c.Done](commands)
	if len(done) == 0 {
		require.Empty(t, only[c.Cancel](commands))
		require.NotEmpty(t, s.running, "not done, and nothing runs")
		return
	}
	require.Len(t, done, 1)
	require.Empty(t, wave)
	s.checkCancels(t, only[c.Cancel](commands))
	s.checkDecision(t, o, done[0].Decision, idle)
}

func (s *session) checkRecord(t require.TestingT, entry c.Accepted) {
	due := s.due[entry.Seq-1]
	require.Equal(t, c.Accepted{Seq: entry.Seq, Agent: entry.Agent, Step: entry.Step, Action: entry.Action, Target: entry.Target}, due)
	if entry.Action == c.Vote {
		before := oracle{config: s.config, ledger: s.ledger[:entry.Seq-1]}
		_, found := before.latest(entry.Target)
		require.True(t, found, "a vote names an agent without an answer: %v", entry)
		require.True(t, slices.ContainsFunc(before.ledger, func(e c.Accepted) bool {
			return e.Agent == entry.Target && e.Label == entry.TargetLabel
		}), "no such revision: %v", entry)
	}
	require.True(t, slices.IsSortedFunc(entry.Seen, func(a, b c.Seen) int { return strings.Compare(a.Agent, b.Agent) }))
	for _, seen := range entry.Seen {
		answer, _ := oracle{ledger: s.ledger[:entry.Seq-1]}.latest(seen.Agent)
		require.Positive(t, seen.Step)
		require.LessOrEqual(t, seen.Step, answer.Step, "saw more than was accepted: %v", entry)
	}
}

// checkWave says who had to be launched, and with what.
func (s *session) checkWave(t require.TestingT, o oracle, wave []c.Launch) {
	revote := wave[0].Revote
	if revote {
		s.revotes++
		require.LessOrEqual(t, s.revotes, s.config.MaxRevotes)
		require.True(t, o.allFresh() && o.majority() == "", "a revote follows a split")
	}
	var want []string
	for _, a := range s.config.Agents {
		if !s.failed[a] && s.ended[a] < s.config.MaxStepsPerAgent && (revote || !o.fresh(a)) {
			want = append(want, a)
		}
	}
	got := make([]string, 0, len(wave))
	for _, l := range wave {
		got = append(got, l.Agent)
		s.running[l.Agent] = l.ID
		require.Equal(t, revote, l.Revote)
		require.Equal(t, s.last[l.Agent], l.After)
		require.Equal(t, s.state.Round, l.Round)
		require.Equal(t, c.NewAnswer, l.Offered[0])
		require.Equal(t, len(l.Shown) > 0, slices.Contains(l.Offered, c.Vote))
		for _, shown := range l.Shown {
			answer, _ := o.latest(shown.Agent)
			require.Equal(t, answer.Label, shown.Label)
			require.Equal(t, answer.Step, shown.Step)
		}
	}
	require.Equal(t, want, got)
	require.LessOrEqual(t, len(s.launches), len(s.config.Agents)*s.config.MaxStepsPerAgent)
}

func (s *session) checkCancels(t require.TestingT, cancels []c.Cancel) {
	require.Len(t, cancels, len(s.running))
	for _, cancel := range cancels {
		require.Equal(t, s.running[s.launches[cancel.ID].Agent], cancel.ID)
	}
}

// checkDecision says that the outcome is the one that the ledger calls for.
func (s *session) checkDecision(t require.TestingT, o oracle, d c.Decision, idle bool) {
	require.Equal(t, o.tally(), d.Votes)
	require.Equal(t, d.Status == c.FailedAll, d.Winner == "", "a failed session, and no other, is without a winner")
	if d.Winner != "" {
		answer, found := o.latest(d.Winner)
		require.True(t, found)
		require.Equal(t, answer.Label, d.WinnerLabel)
		require.Equal(t, answer.Step, d.WinnerStep)
	}
	everybodyFailed := len(s.failed) == len(s.config.Agents)
	switch d.Status {
	case c.Consensus:
		require.True(t, idle && o.allDone())
		require.Equal(t, o.majority(), d.Winner)
	case c.Finished, c.Timeout:
		require.Equal(t, s.forced, d.Status)
		require.Equal(t, o.forced(), d.Winner)
	case c.Limit:
		require.True(t, idle && o.allDone() && o.majority() == "")
		require.Equal(t, o.forced(), d.Winner)
	case c.Plurality:
		require.True(t, idle && o.allFresh() && o.majority() == "")
		if everybodyFailed {
			require.Equal(t, o.forced(), d.Winner)
		} else {
			require.Equal(t, o.plurality(), d.Winner)
		}
	case c.FailedAll:
		nobodyAnswered := o.forced() == ""
		policy := s.config.OnAgentFailure == c.FailureFail && len(s.failed) > 0
		split := s.config.OnSplit == c.SplitFail && idle && o.allFresh() && o.majority() == ""
		require.True(t, nobodyAnswered || policy || split, "failed for no reason")
	}
}

func (s *session) checkState(t require.TestingT) {
	o := s.oracle()
	require.Equal(t, o.tally(), s.state.Tally())
	view := s.state.View()
	require.Len(t, view.Agents, len(s.config.Agents))
	for _, a := range view.Agents {
		require.Equal(t, s.failed[a.ID], a.Status == c.AgentFailed)
		_, running := s.running[a.ID]
		require.Equal(t, running && !s.state.Done(), a.Running)
		require.Equal(t, o.fresh(a.ID), a.Vote != nil && !a.Vote.Stale)
	}
	require.Equal(t, s.used.InputTokens, view.Cost.InputTokens)
	require.LessOrEqual(t, len(s.state.Timeline()), 50)
}

func (s *session) oracle() oracle {
	return oracle{config: s.config, ledger: s.ledger, failed: s.failed, ended: s.ended}
}

// replay feeds the same events to a new session: the same commands follow.
func (s *session) replay(t require.TestingT, config c.Config) {
	again := c.New(config)
	for i, batch := range s.fed {
		for _, e := range batch {
			again.Step(e)
		}
		require.Equal(t, s.given[i], again.Drain())
	}
	require.Equal(t, s.state, again)
}

// rename plays the session with other names in the same order: the same
// happens, under those names.
func (s *session) rename(t require.TestingT, config c.Config) {
	named := func(id string) string { return "q" + id }
	saw := func(seen []c.Seen) []c.Seen {
		other := slices.Clone(seen)
		for i := range other {
			other[i].Agent = named(other[i].Agent)
		}
		return other
	}
	renamed := config
	renamed.Agents = make([]string, 0, len(config.Agents))
	for _, id := range config.Agents {
		renamed.Agents = append(renamed.Agents, named(id))
	}
	other := c.New(renamed)
	for _, batch := range s.fed {
		for _, e := range batch {
			switch v := e.(type) {
			case c.Answered:
				v.Seen = saw(v.Seen)
				e = v
			case c.Voted:
				v.Target, v.Seen = named(v.Target), saw(v.Seen)
				e = v
			}
			other.Step(e)
		}
		other.Drain()
	}
	want := s.state.Decision()
	if want.Winner != "" {
		want.Winner = named(want.Winner)
	}
	for i := range want.Votes {
		want.Votes[i].Target = named(want.Votes[i].Target)
	}
	require.Equal(t, want, other.Decision())
}

func revived(t require.TestingT, s *c.State) *c.State {
	other := &c.State{}
	require.NoError(t, json.Unmarshal([]byte(marshal(t, s)), other))
	return other
}

func kind(command c.Command) string {
	switch command.(type) {
	case c.Record:
		return "Record"
	case c.Cancel:
		return "Cancel"
	case c.Launch:
		return "Launch"
	case c.Done:
		return "Done"
	}
	return ""
}
