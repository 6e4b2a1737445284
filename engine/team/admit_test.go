package team_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"conclave/engine/team"
)

// admitCase is one line of the specification of what reaches a step at work.
type admitCase struct {
	terms    team.Terms
	standing team.Standing
	news     team.News
	want     team.Admission
}

func arrived(number int, label string) team.Arrival {
	return team.Arrival{Number: number, Label: label}
}

// injecting are the terms of a step that may be told, changed.
func injecting(changes ...func(*team.Terms)) team.Terms {
	terms := team.Terms{Updates: team.Updates{Mode: team.Inject}}
	for _, change := range changes {
		change(&terms)
	}
	return terms
}

// much is a lot of news, to a step that was shown agent1.3 and agent3.1.
func much() team.News {
	return team.News{
		Arrivals: []team.Arrival{arrived(1, "agent1.3"), arrived(2, "agent2.1"), arrived(3, "agent3.2"), arrived(4, "agent4.1")},
		Messages: []int{2, 1},
	}
}

func shownBefore() map[int]string { return map[int]string{1: "agent1.3", 3: "agent3.1"} }

func requireAdmitted(t *testing.T, cases map[string]admitCase) {
	t.Helper()
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, c.want, team.Admit(c.terms, c.standing, c.news))
		})
	}
}

// TestAdmitNews: what is news, and how much of it is told.
func TestAdmitNews(t *testing.T) {
	t.Parallel()
	shown, messages, all := shownBefore(), []int{1, 2}, much()
	requireAdmitted(t, map[string]admitCase{
		"nothing is new": {
			injecting(),
			team.Standing{Shown: map[int]string{1: "agent1.3"}, Heard: map[int]bool{1: true}},
			team.News{Arrivals: all.Arrivals[:1], Messages: []int{1}},
			team.Admission{},
		},
		"seed 003: several updates at once are batched into one": {
			injecting(),
			team.Standing{Shown: shown},
			all,
			team.Admission{Answers: []team.Arrival{arrived(2, "agent2.1"), arrived(3, "agent3.2"), arrived(4, "agent4.1")}, Messages: messages},
		},
		"an older revision than the one shown is no news": {
			injecting(),
			team.Standing{Shown: map[int]string{1: "agent1.4"}},
			team.News{Arrivals: all.Arrivals[:1]},
			team.Admission{},
		},
		"the newest of several answers of one agent": {
			injecting(),
			team.Standing{},
			team.News{Arrivals: []team.Arrival{arrived(2, "agent2.2"), arrived(2, "agent2.10"), arrived(2, "agent2.9")}},
			team.Admission{Answers: []team.Arrival{arrived(2, "agent2.10")}},
		},
		// Seed 001: "First-answer protection can defer peer update delivery";
		// "disable_injection: true bypasses peer-answer propagation".
		"mode none": {team.Terms{}, team.Standing{Shown: shown}, all, team.Admission{Messages: messages}},
		// Seed 001: "max_midstream_injections_per_round caps unseen-update fanout
		// per round", in sources; the most revised first, then the last given.
		"a cap takes the newest": {
			injecting(func(t *team.Terms) { t.Most = 2 }),
			team.Standing{Shown: shown},
			all,
			team.Admission{Answers: []team.Arrival{arrived(3, "agent3.2"), arrived(4, "agent4.1")}, Messages: messages},
		},
		"the cap counts over the step": {
			injecting(func(t *team.Terms) { t.Most = 2 }),
			team.Standing{Shown: shown, Injected: 1},
			all,
			team.Admission{Answers: []team.Arrival{arrived(3, "agent3.2")}, Messages: messages},
		},
		"the cap is reached": {
			injecting(func(t *team.Terms) { t.Most = 2 }),
			team.Standing{Shown: shown, Injected: 2},
			all,
			team.Admission{Answers: []team.Arrival{}, Messages: messages},
		},
	})
}

// TestAdmitTerms: when it is told, and when the step begins again instead.
func TestAdmitTerms(t *testing.T) {
	t.Parallel()
	shown, messages, all := shownBefore(), []int{1, 2}, much()
	soft := func(t *team.Terms) { t.Soft, t.Grace = 10*time.Minute, 2*time.Minute }
	requireAdmitted(t, map[string]admitCase{
		// Seed 001: "allow_midstream_peer_updates_before_checklist_submit: true
		// keeps mid-stream peer updates enabled until the first accepted
		// submit_checklist for the current answer".
		"the window before the checklist is open": {
			injecting(func(t *team.Terms) { t.UntilChecklist = true }),
			team.Standing{Shown: shown},
			team.News{Arrivals: all.Arrivals[1:2]},
			team.Admission{Answers: []team.Arrival{arrived(2, "agent2.1")}},
		},
		"the window is closed": {
			injecting(func(t *team.Terms) { t.UntilChecklist = true }),
			team.Standing{Shown: shown, Checked: true},
			all,
			team.Admission{Messages: messages},
		},
		"a checklist closes no window that is not its own": {
			injecting(),
			team.Standing{Checked: true},
			team.News{Arrivals: all.Arrivals[1:2]},
			team.Admission{Answers: []team.Arrival{arrived(2, "agent2.1")}},
		},
		// Seed 001: "If near soft timeout, injection is skipped and restart is deferred".
		"just enough time is left": {
			injecting(soft),
			team.Standing{Worked: 8 * time.Minute},
			team.News{Arrivals: all.Arrivals[1:2]},
			team.Admission{Answers: []team.Arrival{arrived(2, "agent2.1")}},
		},
		"the soft limit is nearer than the grace": {
			injecting(soft), team.Standing{Worked: 8*time.Minute + 1}, all, team.Admission{Messages: messages},
		},
		"near the soft limit a restart waits too": {
			injecting(func(t *team.Terms) { soft(t); t.Mode = team.Restart }),
			team.Standing{Worked: 9 * time.Minute},
			all,
			team.Admission{Messages: messages},
		},
		"told to finish":              {injecting(), team.Standing{Guided: true}, all, team.Admission{Messages: messages}},
		"the session is about to end": {injecting(), team.Standing{}, team.News{Arrivals: all.Arrivals, WrapUp: true}, team.Admission{}},
		// Seed 001: "vote-only mode forces restart instead of mid-stream injection
		// so vote options/tool schema refresh correctly".
		"a step that cannot answer begins again": {
			injecting(func(t *team.Terms) { t.Closing = true }),
			team.Standing{Shown: shown},
			all,
			team.Admission{Restart: true, Messages: messages},
		},
		"such a step of mode none does not": {
			team.Terms{Closing: true}, team.Standing{}, all, team.Admission{Messages: messages},
		},
		"mode restart": {
			injecting(func(t *team.Terms) { t.Mode = team.Restart }),
			team.Standing{Shown: shown},
			all,
			team.Admission{Restart: true, Messages: messages},
		},
		"mode restart, people said something only": {
			injecting(func(t *team.Terms) { t.Mode = team.Restart }),
			team.Standing{},
			team.News{Messages: []int{3}},
			team.Admission{Messages: []int{3}},
		},
		// Seed 001: "Non-peer runtime payloads can also inject: runtime human input".
		"a message is told once": {
			injecting(),
			team.Standing{Heard: map[int]bool{1: true}},
			team.News{Messages: []int{1, 2, 2}},
			team.Admission{Messages: []int{2}},
		},
	})
}
