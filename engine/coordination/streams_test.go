package coordination

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestStreams plays random streams of events in teams that decide early. It requires that the votes
// on the ledger give the winner of every consensus by votes a majority. It is a simpler harness
// than TestProperties. CONCLAVE_STREAMS is the number of streams or, to spread many streams over
// several runs, the first stream and the end of the range, such as 500000-1000000.
func TestStreams(t *testing.T) {
	t.Parallel()
	first, streams := uint64(0), uint64(4000)
	if set := os.Getenv("CONCLAVE_STREAMS"); set != "" {
		from, to, spread := strings.Cut(set, "-")
		if !spread {
			from, to = "0", set
		}
		var errs [2]error
		first, errs[0] = strconv.ParseUint(from, 10, 64)
		streams, errs[1] = strconv.ParseUint(to, 10, 64)
		require.NoError(t, errors.Join(errs[:]...))
	}
	workers := uint64(min(4, runtime.GOMAXPROCS(0)))
	var group sync.WaitGroup
	var mu sync.Mutex
	decided := map[string]int{}
	for w := range workers {
		group.Go(func() {
			own := map[string]int{}
			for seed := first + w; seed < streams; seed += workers {
				s := newStream(seed)
				if fault := s.play(); fault != "" {
					mu.Lock()
					t.Errorf("stream %d: %s", seed, fault)
					mu.Unlock()
					return
				}
				own[string(s.state.Decision().Status)+" "+string(s.state.Decision().DecidedBy())]++
			}
			mu.Lock()
			for how, n := range own {
				decided[how] += n
			}
			mu.Unlock()
		})
	}
	group.Wait()
	t.Logf("%d streams: %v", streams-first, decided)
	require.NotZero(t, decided["consensus quorum"])
	require.NotZero(t, decided["consensus agreement"])
}

// stream is a session with random events.
type stream struct {
	state  *State
	chance *rand.Rand
	runs   map[LaunchID]Launch
	ids    []LaunchID
	checks []LaunchID
	wait   bool
	ledger []Accepted

	presents bool // voters may have failed since the decision
}

func newStream(seed uint64) *stream {
	chance := rand.New(rand.NewPCG(seed, 7))
	ids := []string{"a", "b", "c", "d", "e"}[:2+chance.IntN(4)]
	pick := func(some ...string) string { return some[chance.IntN(len(some))] }
	return &stream{chance: chance, runs: map[LaunchID]Launch{}, state: New(Config{
		Agents: ids, OnSplit: pick("revote", "plurality"), MaxRevotes: chance.IntN(2), MaxStepsPerAgent: 2 + chance.IntN(5),
		Pacing: pick("rounds", "continuous"), Updates: pick("", Inject), Quorum: chance.IntN(4) > 0, QuorumGrace: 30 * chance.IntN(2),
		Start: chance.IntN(4), Grow: 1 + chance.IntN(2), Early: chance.IntN(3) == 0, MaxRounds: chance.IntN(2) * chance.IntN(5),
		MinActive: chance.IntN(3), Ballot: pick("", "", checksShown, checksBreakTies), Strategy: pick(winnerReuse, winnerReuse, winnerPresent),
	})}
}

// play steps random events until the session is decided. It returns a description of a wrong
// decision, or "".
func (s *stream) play() string {
	for range 2000 {
		for _, command := range s.state.Drain() {
			switch c := command.(type) {
			case Launch:
				s.runs[c.ID] = c
				s.presents = s.presents || c.Purpose == Present
				s.ids = append(s.ids, c.ID)
			case Check:
				s.checks = append(s.checks, c.ID)
			case Wait:
				s.wait = true
			case Record:
				s.ledger = append(s.ledger, c.Entry)
			case Done:
				return s.fault(c.Decision)
			case Cancel, Ring:
			}
		}
		for range 1 + s.chance.IntN(3) {
			s.state.Step(s.event())
		}
	}
	return "the session never ends"
}

func (s *stream) event() Event {
	switch n := s.chance.IntN(60); {
	case n == 0:
		return Said{Text: "well"}
	case n == 1:
		return Retry{}
	case n < 6 && len(s.checks) > 0, len(s.ids) == 0 && len(s.checks) > 0:
		id := s.checks[0]
		s.checks = s.checks[1:]
		return Checked{ID: id, Verdicts: []string{"1", "0", "11", "01", ""}[s.chance.IntN(5)]}
	case s.wait && n < 20, len(s.ids) == 0:
		s.wait = false
		return Waited{}
	}
	i := s.chance.IntN(len(s.ids))
	l := s.runs[s.ids[i]]
	s.ids = slices.Delete(s.ids, i, i+1)
	end := End{Launch: l.ID, Step: l.After + 1}
	var seen []Seen
	for _, shown := range l.Shown {
		seen = append(seen, Seen{Agent: shown.Agent, Step: shown.Step})
	}
	switch action := l.Offered[s.chance.IntN(len(l.Offered))]; {
	case s.chance.IntN(25) == 0:
		s.ledger = append(s.ledger, Accepted{Agent: l.Agent, Action: Stop})
		return Failed{End: end, Cause: Failure{Type: "Network"}, Token: "t"}
	case s.chance.IntN(25) == 0:
		return Exhausted{End: end}
	case action == Vote:
		return Voted{End: end, Choice: Choice{Target: l.Shown[min(s.chance.IntN(len(l.Shown)), s.chance.IntN(len(l.Shown)))].Agent}, Seen: seen}
	}
	word := []string{"one", "one", "two"}[s.chance.IntN(3)]
	return Answered{End: end, Seen: seen, Digest: Digest{Exact: word, Normalized: word}, Checks: []string{"x", word}[:s.chance.IntN(3)]}
}

// fault compares a consensus with the votes on the ledger, and describes a contradiction.
func (s *stream) fault(d Decision) string {
	if d.Status != Consensus || s.presents {
		return ""
	}
	votes, answers := map[string]Accepted{}, map[string]int{}
	for _, e := range s.ledger {
		switch e.Action {
		case Vote:
			votes[e.Agent] = e
		case NewAnswer:
			delete(votes, e.Agent)
			answers[e.Agent] = e.Step
		case Stop: // a failure, which voids the vote
			delete(votes, e.Agent)
		case Say, Submit, RestartTeam:
		}
	}
	if d.By == ByAgreement {
		if len(votes) > 0 {
			return fmt.Sprintf("equal answers decided although votes were cast: %v", votes)
		}
		return ""
	}
	active, behind := 0, 0
	for _, a := range s.state.View().Agents {
		if a.Error != nil || a.Absent {
			continue
		}
		active++
		v, voted := votes[a.ID]
		fresh := voted && v.Target == d.Winner
		for agent, step := range answers {
			fresh = fresh && slices.ContainsFunc(v.Seen, func(n Seen) bool { return n.Agent == agent && n.Step >= step })
		}
		if fresh {
			behind++
		}
	}
	if 2*behind <= active {
		return fmt.Sprintf("%s for %s with %d of %d fresh votes", d.DecidedBy(), d.Winner, behind, active)
	}
	return ""
}
