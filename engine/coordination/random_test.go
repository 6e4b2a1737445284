package coordination

import (
	"slices"
	"strings"

	"github.com/stretchr/testify/require"

	"conclave/engine/llm"
)

// drawn returns one of the values, selected by choose.
func drawn[T any](choose pick, some ...T) T { return some[choose(len(some))] }

// randomConfig sets every field at random, mostly to a low limit and sometimes to an invalid value.
func randomConfig(choose pick) Config {
	ids := []string{"b", "agent_a", "zed", "a", "m1", "B", "x-2"}[:drawn(choose, 3, 0, 1, 2, 2, 3, 3, 4, 4, 5, 6, 7)]
	if len(ids) > 1 && choose(16) == 1 {
		ids = append(slices.Clone(ids), ids[0])
	}
	flag := func() bool { return choose(4) == 1 }
	config := Config{
		Agents:           ids,
		OnSplit:          drawn(choose, splitRevote, splitPlurality, SplitFail, "coin"),
		MaxRevotes:       drawn(choose, 1, 0, 1, 2, 3, -1),
		MaxStepsPerAgent: drawn(choose, 3, 1, 2, 3, 4, 5, 6, 8, 0),
		OnAgentFailure:   drawn(choose, "continue", "park", "continue", "fail", "park"),

		Mode:   drawn(choose, voting, voting, Decomposition, ""),
		Pacing: drawn(choose, "rounds", "continuous"),

		Updates:         drawn(choose, noUpdates, Inject, Restart, "shout"),
		DeferUpdates:    flag(),
		BeforeChecklist: flag(),
		UpdatesPerStep:  choose(4) - 1,
		AnswersPerAgent: drawn(choose, 0, 0, 1, 1, 2, 3, -1),
		AnswersGlobal:   drawn(choose, 0, 0, 0, 1, 2, 3, 5, -1),
		DeferVoting:     flag(),
		SkipVoting:      choose(8) == 1,

		MinActive: drawn(choose, 0, 0, 0, 1, 2, 3, -1),
		Secluded:  choose(5) == 1,
		Solo:      flag(),
		Agree:     drawn(choose, "", "", agreeExact, "nearly"),

		Strategy:         drawn(choose, winnerReuse, winnerPresent, synthesize),
		SkipPresentation: flag(),
		MaxRestarts:      drawn(choose, 0, 0, 1, 2, -1),
		Budget: Allowance{
			Tokens: drawn(choose, int64(0), 0, 0, 0, 0, 0, 10, 60, 300, -1),
			USD:    drawn(choose, 0.0, 0, 0, 0, 0, 0, 1, 2.3, 20, -1),
		},
	}
	randomWorth(choose, &config)
	if choose(3) == 1 {
		lead := choose(4) - 1
		config.LeadCap = &lead
	}
	if len(ids) > 0 && flag() {
		config.Presenter = ids[choose(len(ids))]
	}
	return config
}

// randomWorth sets the fields for quorums, staged teams, rounds and support, in about half of the
// sessions.
func randomWorth(choose pick, c *Config) {
	if choose(2) == 1 {
		c.Quorum, c.QuorumGrace = choose(2) == 1, drawn(choose, 0, 30, 30, -1)
		c.Start, c.Grow = drawn(choose, 0, 1, 2, 2, 3, 9, -1), drawn(choose, 0, 1, 2)
		c.Early = choose(3) == 1
	}
	if choose(3) == 1 {
		c.Ballot, c.ShowChecks = drawn(choose, checksShown, checksBreakTies, checksDecide, "coin"), choose(2) == 1
		c.Checks = drawn(choose, nil, []string{"u"}, []string{"u", "y"})
	}
	if choose(4) == 1 {
		c.MaxRounds, c.MinSupport = drawn(choose, 0, 1, 2, 3, 4, -1), drawn(choose, 0, 0.3, 0.51, 0.7, 1, 2, -1)
	}
	if choose(4) == 1 {
		c.Skill = map[string]float64{"nobody": 1}
		for _, id := range c.Agents {
			c.Skill[id] = drawn(choose, 0.5, 0.5, 0.7, 0, 1)
		}
	}
	if choose(6) == 1 {
		parts := drawn(choose, []string{"share"}, []string{"share", "agreement", "spread"}, []string{"share", "confidence"}, []string{"checks"})
		c.Promise = &Threshold{Parts: parts, Least: drawn(choose, 0.2, 0.5, 0.8, 1)}
	}
}

// temper describes the behaviour of a session's agents and people.
type temper struct {
	single    bool // most votes are for one answer
	agreeable int  // of 4 choices, how many are not for another answer
	honest    bool // nobody lies about what was shown
	reliable  bool // steps end with what they were offered
	quiet     bool // nobody disturbs the session
	stormy    bool // most steps end in an outage
}

func randomTemper(choose pick) temper {
	return temper{
		single: choose(2) == 1, agreeable: drawn(choose, 3, 0, 1, 2, 3, 4, 4, 4), honest: choose(3) != 1, reliable: choose(2) == 1, quiet: choose(2) == 1,
		stormy: choose(4) == 1,
	}
}

// randomBatch returns events that reach a session at the same time.
func (s *session) randomBatch() []Event {
	events := make([]Event, 0, 4)
	for range 1 + s.pick(4) {
		events = append(events, s.randomEvent())
	}
	return events
}

// randomEvent returns an event, usually the correct end of a running step.
func (s *session) randomEvent() Event {
	if n := len(s.oracle.out); n > 0 && s.pick(3) == 1 {
		return s.endChecks(s.oracle.out[s.pick(n)].id)
	}
	choice := s.pick(40)
	if s.temper.quiet && choice < 10 && s.pick(8) > 0 {
		choice = 10
	}
	switch choice {
	case 1:
		return drawn[Event](s.pick, TimeShort{}, TimeShort{}, TimeShort{}, TimeUp{}, Finish{}, nil, Reopened{Run: "run1"}, CancelRequested{})
	case 2, 3:
		return s.end(s.randomLaunch(), s.pick(9))
	case 4, 5:
		return Pause{}
	case 6:
		return drawn[Event](s.pick, Resume{}, Resume{}, Resume{}, Waited{})
	case 7:
		return Retry{Agent: drawn(s.pick, "", s.randomAgent())}
	case 8, 9:
		return Said{Agent: drawn(s.pick, "", s.randomAgent(), ""), Text: s.randomText()}
	case 10, 11, 12, 13:
		e := ModelReport{Launch: s.randomLaunch()}
		if ids := s.runningIDs(); len(ids) > 0 {
			e.Launch = drawn(s.pick, ids...)
		}
		if s.pick(4) > 0 {
			e.Out = &Doing{What: s.randomText()}
		}
		return e
	}
	switch {
	case s.state.Held() && s.pick(3) == 1:
		return drawn[Event](s.pick, Resume{}, Retry{})
	case s.oracle.waiting && s.pick(2) == 1:
		return Waited{}
	case len(s.runningIDs()) == 0:
		return s.end("l1", s.pick(9))
	}
	id := drawn(s.pick, s.runningIDs()...)
	if s.state.View().Paused && s.pick(4) > 0 { // it was asked to
		return s.endWith(id, "suspend")
	}
	return s.end(id, s.pick(20))
}

// endChecks ends checks with random outcomes.
func (s *session) endChecks(id LaunchID) Event {
	return Checked{ID: id, Verdicts: drawn(s.pick, "", "1", "0", "11111111111111", "0101?1", "10x", "000000000000")}
}

// end returns the end of a step, usually with an offered action.
func (s *session) end(id LaunchID, choice int) Event {
	others := []string{
		"fail", "suspend", "restart", "exhaust", string(NewAnswer), string(Vote), string(Stop), string(Submit),
		string(RestartTeam), "restart",
	}
	offered := s.launches[id].Offered
	if s.temper.stormy && s.pick(4) > 0 {
		return s.endWith(id, "fail")
	}
	if s.temper.reliable && choice < 6 {
		choice = 0
	}
	switch {
	case choice > 0 && choice < 6 || len(offered) == 0:
		return s.endWith(id, drawn(s.pick, others...))
	case s.pick(4) < s.temper.agreeable:
		return s.endWith(id, string(offered[len(offered)-1]))
	}
	return s.endWith(id, string(offered[0]))
}

func (s *session) endWith(id LaunchID, action string) Event {
	used := s.randomUsage()
	step := s.launches[id].After + 1
	if !s.temper.honest && s.pick(8) == 1 {
		step = s.pick(9) - 1
	}
	seen, heard := s.randomSeen(id)
	longest := float64(s.pick(3))
	switch action {
	case "fail":
		return Failed{
			End: End{Launch: id, Step: step, Usage: used, LongestCall: longest}, Cause: Failure{Type: "network", Message: s.randomText()}, Token: s.randomToken(id),
			Outage: s.randomOutage(),
		}
	case "suspend":
		return Suspended{End: End{Launch: id, Step: step, Usage: used, LongestCall: longest}, Token: s.randomToken(id)}
	case "restart":
		return Restarted{End: End{Launch: id, Step: step, Usage: used, LongestCall: longest}}
	case "exhaust":
		return Exhausted{End: End{Launch: id, Step: step, Usage: used, LongestCall: longest}}
	case string(Vote):
		return Voted{
			End: End{Launch: id, Step: step, Usage: used, LongestCall: longest}, Choice: Choice{Target: s.randomTarget(id), TargetLabel: s.randomLabel(), Reason: s.randomText(), Confidence: s.randomConfidence()}, Seen: seen, Heard: heard,
		}
	case string(Stop):
		status := drawn(s.pick, Complete, Blocked, StopStatus("tired"))
		return Stopped{End: End{Launch: id, Step: step, Usage: used, LongestCall: longest}, Status: status, Summary: s.randomText(), Seen: seen, Heard: heard}
	case string(Submit), string(RestartTeam):
		again := action == string(RestartTeam)
		return Evaluated{End: End{Launch: id, Step: step, Usage: used, LongestCall: longest}, Again: again, Reason: s.randomText()}
	}
	return Answered{End: End{Launch: id, Step: step, Usage: used, LongestCall: longest}, Seen: seen, Heard: heard, Digest: s.randomDigest(), Checks: s.randomChecks()}
}

func (s *session) randomChecks() []string {
	many := make([]string, 12)
	for i := range many {
		many[i] = string(rune('a' + i))
	}
	return drawn(s.pick, nil, nil, nil, []string{"x"}, []string{"x", "y"}, []string{"z"}, many)
}

func (s *session) randomConfidence() *float64 {
	return drawn(s.pick, nil, nil, new(0.5), new(0.25), new(1.0), new(0.0), new(1.5), new(-0.1))
}

// randomDigest returns a digest, which usually equals that of another agent.
func (s *session) randomDigest() Digest {
	hash := func() string { return drawn(s.pick, "one", "one", "two", "", "three") }
	return Digest{Exact: hash(), Normalized: hash(), ExactLine: hash(), NormalizedLine: hash()}
}

// release returns events that end pauses, parking and all running steps.
func (s *session) release(t require.TestingT) []Event {
	ids := s.runningIDs()
	switch {
	case s.state.View().Paused:
		return []Event{Resume{}}
	case s.oracle.waiting:
		return []Event{Waited{}}
	case len(ids) == 0 && s.oracle.isChecking():
		return []Event{s.endChecks(s.oracle.out[s.pick(len(s.oracle.out))].id)}
	case len(ids) == 0:
		require.True(t, s.state.Held(), "nothing runs, and nobody holds it up")
		return []Event{drawn[Event](s.pick, Retry{}, Retry{}, Finish{})}
	}
	event := s.end(drawn(s.pick, ids...), s.pick(12))
	switch e := event.(type) {
	case Failed:
		if s.failures++; s.failures > 6 {
			return []Event{Exhausted{End: End{Launch: e.Launch, Step: e.Step, Usage: e.Usage}}}
		}
	case Suspended:
		if s.suspends++; s.suspends > 6 {
			return []Event{Exhausted{End: End{Launch: e.Launch, Step: e.Step, Usage: e.Usage}}}
		}
	}
	return []Event{event}
}

func (s *session) runningIDs() []LaunchID {
	var ids []LaunchID
	for _, a := range s.oracle.running() {
		ids = append(ids, s.oracle.agents[a].runs.ID)
	}
	return ids
}

func (s *session) randomLaunch() LaunchID {
	return drawn(s.pick, LaunchID("l1"), "l2", "l3", "l5", "l8", "", "l0", "\xff")
}

func (s *session) randomAgent() string {
	choice := s.pick(8 * (len(s.oracle.config.Agents) + 1))
	if choice >= 8*len(s.oracle.config.Agents) {
		return []string{"", "nobody\xfe"}[choice%2]
	}
	return s.oracle.config.Agents[choice/8]
}

// randomTarget usually returns the author of a shown answer. In some sessions it prefers the first
// one, so that a team can agree.
func (s *session) randomTarget(id LaunchID) string {
	shown := s.launches[id].Shown
	if len(shown) == 0 || s.pick(8) == 1 {
		return s.randomAgent()
	}
	if s.temper.single && s.pick(4) > 0 {
		return shown[0].Agent
	}
	return drawn(s.pick, shown...).Agent
}

// randomSeen usually returns the shown answers, sometimes also those of the bell, and occasionally
// false ones.
func (s *session) randomSeen(id LaunchID) (seen []Seen, heard int) {
	seen, heard = s.shownTo(id), s.lastMessage(id)
	if s.launches[id].Updates.Mode != noUpdates && s.pick(2) == 1 {
		seen, heard = s.witnessed(id)
	}
	if s.temper.honest {
		return seen, heard
	}
	if s.pick(6) == 1 {
		for range s.pick(4) {
			seen = append(seen, Seen{Agent: s.randomAgent(), Step: s.pick(12) - 2})
		}
	}
	if len(seen) > 0 && s.pick(8) == 1 {
		seen = seen[1:]
	}
	if s.pick(8) == 1 {
		heard = s.pick(6) - 1
	}
	return seen, heard
}

func (s *session) randomUsage() llm.Usage {
	used := llm.Usage{
		InputTokens: int64(s.pick(9)), CachedInputTokens: int64(s.pick(2)), OutputTokens: int64(s.pick(3)), ModelCalls: int64(s.pick(4)),
	}
	if s.pick(10) != 1 {
		usd := float64(s.pick(5)) / 10
		used.TotalUSD = &usd
	}
	return used
}

func (s *session) randomOutage() Outage {
	if s.temper.stormy {
		return drawn(s.pick, Interrupted, Interrupted, Unreached)
	}
	return drawn(s.pick, NoOutage, NoOutage, Interrupted, Unreached)
}

func (s *session) randomToken(id LaunchID) string {
	return drawn(s.pick, tokenOf(id), tokenOf(id), "")
}

func (s *session) randomLabel() string {
	return drawn(s.pick, "", "agent1", "agent1.1", "agent2.1", "agent2.2", "agent3.1", "agent0.-1", "agent1.final")
}

func (s *session) randomText() string {
	return drawn(s.pick, "because", "", strings.Repeat("ü", 281), "\xff\xc3", " \n", strings.Repeat("long ", 1000))
}
