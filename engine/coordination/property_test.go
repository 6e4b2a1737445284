package coordination

import (
	"encoding/json"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// TestProperties plays random sessions of random teams with correct, late, impossible and invented
// events. It compares every batch with the oracle and the invariants.
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

// TestPropertiesWithUniformChoices makes all choices equally likely, so that votes split more
// often. A failure reports its seed.
func TestPropertiesWithUniformChoices(t *testing.T) {
	t.Parallel()
	for seed := range uint64(400) {
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

// FuzzSession plays a script of bytes, one byte for every choice.
func FuzzSession(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{2, 0, 1, 3, 0})
	f.Add([]byte(strings.Repeat("\x02\x00\x00\x01\x00\x05\x03", 20)))
	for seed := range uint64(8) {
		chance := rand.New(rand.NewPCG(seed, 1))
		script := make([]byte, 400)
		for i := range script {
			script[i] = byte(chance.Uint32())
		}
		f.Add(script)
	}
	f.Fuzz(func(t *testing.T, script []byte) {
		script = script[:min(len(script), 1000)] // longer ones only continue after the decision
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

// pick chooses a number in [0, n).
type pick func(n int) int

// session is a random session under observation.
type session struct {
	*player
	pick       pick
	temper     temper
	oracle     *oracle
	invariants *invariants

	batch []Event     // since the last Drain, without refused reopenings
	taken [][]Event   // those batches
	fed   [][]Event   // all batches so far
	given [][]Command // the result of each

	saved  string  // the state after some batches
	said   []Said  // accepted since
	claims []Claim // ends of steps with an accepted action since

	failures int // since the session was released
	suspends int
}

// startRandom begins a session with a random configuration.
func startRandom(choose pick) (*State, func(rename func(string) string) *State) {
	config := randomConfig(choose)
	again := func(rename func(string) string) *State {
		other := config
		other.Agents = nil
		for _, id := range config.Agents {
			other.Agents = append(other.Agents, rename(id))
		}
		other.Presenter = rename(config.Presenter)
		other.Skill = map[string]float64{}
		for id, skill := range config.Skill {
			other.Skill[rename(id)] = skill
		}
		return New(other)
	}
	return New(config), again
}

func playRandom(t require.TestingT, choose pick, more func() bool) {
	state, again := startRandom(choose)
	s := &session{player: playerOf(state), pick: choose, temper: randomTemper(choose), oracle: newOracle(state), invariants: newInvariants()}
	s.feed(t, nil)
	for more() && !s.state.Done() {
		s.feed(t, s.randomBatch())
	}
	s.finish(t)
	for range 2 {
		e := Reopened{Run: "run2", Agent: drawn(choose, "", "", s.randomAgent()), Text: drawn(choose, "", "", s.randomText())}
		for _, l := range s.state.RunningSteps() {
			if choose(2) == 0 {
				e.Unclaimed = append(e.Unclaimed, l.ID)
			}
		}
		s.feed(t, []Event{e})
		s.finish(t)
	}
	if s.temper.honest {
		s.caughtUp(t)
	}
	decided := s.state.Decision()
	for range 3 {
		s.feed(t, slices.DeleteFunc(s.randomBatch(), func(e Event) bool { _, reopens := e.(Reopened); return reopens }))
	}
	require.Equal(t, decided, s.state.Decision(), "nothing follows a decision")
	s.replay(t, again(func(id string) string { return id }))
	s.rename(t, again(renamed))
}

// finish sends events that release the session until it ends. Every session ends if its steps end
// and it is not held forever. An invariant bounds the number of launches; this function bounds the
// batches without launches.
func (s *session) finish(t require.TestingT) {
	for rest := 10 * s.invariants.bound(s); !s.state.Done(); rest-- {
		require.Positive(t, rest, "the session never ends")
		s.feed(t, s.release(t))
	}
}

// feed steps a batch and drains once. A copy of the state that is restored from JSON before every
// event must produce the same commands.
func (s *session) feed(t require.TestingT, events []Event) {
	encoded := marshal(t, s.state)
	for _, e := range events {
		twin := decoded(t, encoded)
		s.request(t, e)
		s.invariants.observe(s, e)
		if _, ok := e.(Reopened); !ok || s.state.Refuse(e) == nil {
			s.oracle.take(e)
			s.batch = append(s.batch, e)
		}
		before := s.state.Accepted
		if s.step(e); s.saved != "" && s.state.Accepted > before {
			s.remember(e)
		}
		twin.Step(e)
		encoded = marshal(t, s.state)
		require.Equal(t, encoded, marshal(t, twin), "after %#v", e)
	}
	twin := decoded(t, encoded)
	before := s.invariants.before(s)
	commands := s.drain()
	require.Equal(t, commands, twin.Drain())
	encoded = marshal(t, s.state)
	require.Equal(t, encoded, marshal(t, twin))
	require.Empty(t, decoded(t, encoded).Drain(), "nothing comes twice")
	if len(s.fed) == 3 {
		s.saved = encoded
	}
	s.fed, s.taken, s.given, s.batch = append(s.fed, events), append(s.taken, s.batch), append(s.given, commands), nil

	s.compare(t, commands)
	s.invariants.check(t, s, before, commands)
	s.checkView(t)
}

// request compares Refuse with rule 29. A refused request changes only the timeline.
func (s *session) request(t require.TestingT, e Event) {
	senseless := false
	switch e := e.(type) {
	case Pause, Resume, Finish, Retry, Said:
		senseless = s.oracle.senseless(e)
	case Reopened:
		senseless = s.hopeless(t, e)
	default:
		require.NoError(t, s.state.Refuse(e))
		return
	}
	err := s.state.Refuse(e)
	require.Equal(t, senseless, err != nil, "%#v is refused: %v", e, err)
	if err == nil {
		return
	}
	require.NotEmpty(t, err.Error())
	other := revived(t, s.state)
	other.Step(e)
	require.Equal(t, s.state.Events+1, other.Events)
	other.Events, other.Recent = s.state.Events, s.state.Recent
	require.Equal(t, marshal(t, s.state), marshal(t, other), "%#v was refused", e)
}

// hopeless implements rule 62. It uses another oracle, which reads the session again.
func (s *session) hopeless(t require.TestingT, e Reopened) bool {
	o := s.oracle
	failed := func(a string) bool { return slices.Contains(o.config.Agents, a) && o.agents[a].failed != nil }
	if o.over != nil && o.over.Stands() || e.Text == "" && e.Agent != "" && !failed(e.Agent) {
		return true
	}
	other := newOracle(s.state)
	for i, batch := range s.taken {
		for _, event := range batch {
			other.take(event)
		}
		other.predict()
		for _, l := range launches(s.given[i]) {
			other.agents[l.Agent].runs.Allowance = l.Allowance
		}
	}
	for _, event := range s.batch {
		other.take(event)
	}
	other.goOn(e)
	if said := (Said{Agent: e.Agent, Text: e.Text}); e.Text != "" {
		if other.senseless(said) {
			return true
		}
		other.obey(said)
	}
	for _, command := range other.predict() {
		if done, ok := command.(Done); ok && !done.Decision.Stands() {
			return true
		}
	}
	return false
}

// compare compares the commands of a Drain with the oracle's, one by one (rule 50). The invariants
// verify allowances, which the oracle only records.
func (s *session) compare(t require.TestingT, commands []Command) {
	told := len(s.ledger) - len(only[Record](commands))
	want := []Command{}
	predicted := s.oracle.predict()
	for _, entry := range s.oracle.ledger()[told:] {
		want = append(want, Record{Entry: entry})
	}
	want = append(want, predicted...)
	got := []Command{}
	for _, command := range commands {
		if l, ok := command.(Launch); ok {
			if run := s.oracle.agents[l.Agent].runs; run != nil {
				run.Allowance = l.Allowance
			}
			l.Allowance = Allowance{}
			command = l
		}
		if d, ok := command.(Done); ok { // the oracle elects, and leaves ties and voters to tests of their own
			require.True(t, d.Decision.Tied == nil || len(d.Decision.Tied) > 1 && slices.Contains(d.Decision.Tied, d.Decision.Winner))
			require.Len(t, d.Decision.Voters, total(d.Decision.Votes))
			d.Decision.Tied, d.Decision.Voters, d.Decision.Earlier = nil, nil, false
			command = d
		}
		got = append(got, command)
	}
	require.Equal(t, want, got)
}

// checkView compares the View with the book.
func (s *session) checkView(t require.TestingT) {
	o := s.oracle
	require.Equal(t, o.tally(), s.state.Tally())
	view := s.state.View()
	require.Len(t, view.Agents, len(o.config.Agents))
	require.Equal(t, o.cost(), view.Cost)
	require.Equal(t, len(o.said), view.Messages)
	require.Equal(t, len(o.past)+1, view.Attempt)
	require.Equal(t, o.round, view.Round)
	require.Equal(t, o.over == nil && o.paused, view.Paused)
	require.Equal(t, o.over == nil && o.parked(), view.Parked != nil)
	require.Equal(t, o.over == nil && (o.paused || o.parked()), s.state.Held())
	require.Equal(t, o.over != nil, view.Phase == PhaseDone)
	require.Equal(t, o.over == nil && o.closing != nil, view.Phase == PhasePresenting)
	require.Equal(t, s.state.Decision().Winner, view.Winner)
	fresh := 0
	for i, a := range view.Agents {
		require.Equal(t, o.config.Agents[i], a.ID)
		s.checkAgent(t, a)
		if a.Vote != nil && !a.Vote.Stale {
			fresh++
		}
	}
	counted := 0
	for _, n := range view.Votes {
		require.Positive(t, n)
		counted += n
	}
	require.Equal(t, fresh, counted, "only fresh votes count")
	require.LessOrEqual(t, len(s.state.Timeline()), 500)
}

func (s *session) checkAgent(t require.TestingT, a AgentView) {
	o, m := s.oracle, s.oracle.agents[a.ID]
	require.Equal(t, o.number(a.ID), a.Number)
	require.Equal(t, m.failed != nil, a.Status == "failed")
	require.Equal(t, m.failed != nil, a.Error != nil)
	require.Equal(t, m.runs != nil && o.over == nil, a.Running)
	require.Equal(t, m.step, a.Step)
	require.Equal(t, m.absent, a.Absent)
	require.Equal(t, m.used, a.Cost)
	latest, _ := o.latest(a.ID)
	require.Equal(t, latest.Label, a.LatestLabel)
	l := o.standing(a.ID)
	require.Equal(t, l != nil && l.Action == Vote, a.Vote != nil)
	require.Equal(t, l != nil && l.Action == Stop, a.Stop != nil)
	if a.Vote != nil {
		require.Equal(t, VoteView{
			Choice: Choice{Target: l.Target, TargetLabel: l.TargetLabel, Reason: l.reason, Confidence: l.sure}, Step: l.Step, Stale: o.stale(a.ID, l),
		}, *a.Vote)
	}
	if a.Stop != nil {
		require.Equal(t, StopView{Status: l.Status, Summary: l.reason, Step: l.Step, Stale: o.stale(a.ID, l)}, *a.Stop)
	}
}

// replay requires that a new session with the same events produces the same commands.
func (s *session) replay(t require.TestingT, again *State) {
	for i, batch := range s.fed {
		for _, e := range batch {
			again.Step(e)
		}
		require.Equal(t, s.given[i], again.Drain())
	}
	require.Equal(t, s.state, again)
}

// renamed returns a different ID. The order of IDs is preserved.
func renamed(id string) string {
	if id == "" {
		return ""
	}
	return "q" + id
}

// rename requires that the session is the same if its IDs are replaced by others in the same order.
func (s *session) rename(t require.TestingT, other *State) {
	for i, batch := range s.fed {
		for _, e := range batch {
			other.Step(renameEvent(e))
		}
		require.Len(t, other.Drain(), len(s.given[i]))
	}
	want := s.state.Decision()
	want.Winner = renamed(want.Winner)
	for i := range want.Votes {
		want.Votes[i].Target = renamed(want.Votes[i].Target)
	}
	for _, ids := range [][]string{want.Tied, want.Voters} {
		for i := range ids {
			ids[i] = renamed(ids[i])
		}
	}
	for i := range want.Cut {
		want.Cut[i] = renamed(want.Cut[i])
	}
	if want.Final != nil {
		want.Final.Agent = renamed(want.Final.Agent)
	}
	require.Equal(t, want, other.Decision())
}

func renameEvent(event Event) Event {
	saw := func(seen []Seen) []Seen {
		other := slices.Clone(seen)
		for i := range other {
			other[i].Agent = renamed(other[i].Agent)
		}
		return other
	}
	switch e := event.(type) {
	case Answered:
		e.Seen = saw(e.Seen)
		return e
	case Voted:
		e.Target, e.Seen = renamed(e.Target), saw(e.Seen)
		return e
	case Stopped:
		e.Seen = saw(e.Seen)
		return e
	case Retry:
		e.Agent = renamed(e.Agent)
		return e
	case Reopened:
		e.Agent = renamed(e.Agent)
		return e
	case Said:
		e.Agent = renamed(e.Agent)
		return e
	}
	return event
}

func revived(t require.TestingT, s *State) *State { return decoded(t, marshal(t, s)) }

func decoded(t require.TestingT, state string) *State {
	s := &State{}
	require.NoError(t, json.Unmarshal([]byte(state), s))
	return s
}

// total returns the number of votes for all targets.
func total(counts []count) (sum int) {
	for _, c := range counts {
		sum += c.Votes
	}
	return sum
}
