package session

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"conclave/engine/coordination"
	"conclave/engine/session/quality"
)

// terms are a launch's rules for updates. Closing is true for a step that cannot answer.
type terms struct {
	coordination.Updates
	Closing     bool
	Soft, Grace time.Duration
}

// standing is the progress of a step.
type standing struct {
	Shown    map[int]string // labels by agent number
	Heard    map[int]bool   // messages by number
	Injected int
	Worked   time.Duration
	Guided   bool
	Checked  bool // a checklist was accepted
}

// admitted returns the decision of the rules for a step with the given terms and standing.
func admitted(terms terms, s standing, n news) admission {
	t := task{Offered: []coordination.Action{coordination.Vote}, limits: limits{Soft: terms.Soft, Grace: terms.Grace, Updates: terms.Updates}}
	if !terms.Closing {
		t.Offered = append(t.Offered, coordination.NewAnswer)
	}
	r := newRules(t)
	for number, label := range s.Shown {
		r.memory.answers = append(r.memory.answers, answer{Number: number, Label: label})
	}
	r.memory.messages, r.memory.injected, r.memory.worked, r.memory.guided = s.Heard, s.Injected, s.Worked, s.Guided
	if s.Checked {
		r.task.Checklist = &quality.Policy{Own: "agent1.3"}
		r.memory.scored = []scored{{result: &quality.Result{Status: "accepted"}}}
	}
	return r.admitNews(n)
}

// admitCase is one case in the specification of updates.
type admitCase struct {
	terms    terms
	standing standing
	news     news
	want     admission
}

func arrived(number int, label string) arrival {
	return arrival{Number: number, Label: label}
}

// injecting returns the terms of a step in mode inject, after changes.
func injecting(changes ...func(*terms)) terms {
	terms := terms{Updates: coordination.Updates{Mode: coordination.Inject}}
	for _, change := range changes {
		change(&terms)
	}
	return terms
}

// much returns the news for a step that was shown agent1.3 and agent3.1.
func much() news {
	return news{
		Arrivals: []arrival{arrived(1, "agent1.3"), arrived(2, "agent2.1"), arrived(3, "agent3.2"), arrived(4, "agent4.1")},
		Messages: []int{2, 1},
	}
}

func shownBefore() map[int]string { return map[int]string{1: "agent1.3", 3: "agent3.1"} }

func requireAdmitted(t *testing.T, cases map[string]admitCase) {
	t.Helper()
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, c.want, admitted(c.terms, c.standing, c.news))
		})
	}
}

// admit selects the news that is shown, and limits the number of answers in it.
func TestAdmit_news(t *testing.T) {
	t.Parallel()
	shown, messages, all := shownBefore(), []int{1, 2}, much()
	requireAdmitted(t, map[string]admitCase{
		"nothing is new": {
			injecting(),
			standing{Shown: map[int]string{1: "agent1.3"}, Heard: map[int]bool{1: true}},
			news{Arrivals: all.Arrivals[:1], Messages: []int{1}},
			admission{},
		},
		"seed 003: several updates at once are batched into one": {
			injecting(),
			standing{Shown: shown},
			all,
			admission{Answers: []arrival{arrived(2, "agent2.1"), arrived(3, "agent3.2"), arrived(4, "agent4.1")}, Messages: messages},
		},
		"an older revision than the one shown is no news": {
			injecting(),
			standing{Shown: map[int]string{1: "agent1.4"}},
			news{Arrivals: all.Arrivals[:1]},
			admission{},
		},
		"the newest of several answers of one agent": {
			injecting(),
			standing{},
			news{Arrivals: []arrival{arrived(2, "agent2.2"), arrived(2, "agent2.10"), arrived(2, "agent2.9")}},
			admission{Answers: []arrival{arrived(2, "agent2.10")}},
		},
		// Seed 001: "First-answer protection can defer peer update delivery";
		// "disable_injection: true bypasses peer-answer propagation".
		"mode none": {terms{}, standing{Shown: shown}, all, admission{Messages: messages}},
		// Seed 001: "max_midstream_injections_per_round caps unseen-update fanout
		// per round", in sources; without an order the most revised first.
		"a cap takes the newest": {
			injecting(func(t *terms) { t.Most = 2 }),
			standing{Shown: shown},
			all,
			admission{Answers: []arrival{arrived(3, "agent3.2"), arrived(4, "agent4.1")}, Messages: messages},
		},
		"a cap takes those accepted last": {
			injecting(func(t *terms) { t.Most = 2 }),
			standing{},
			news{Arrivals: []arrival{
				{Number: 1, Label: "agent1.2", Seq: 9}, {Number: 2, Label: "agent2.5", Seq: 7}, {Number: 3, Label: "agent3.1", Seq: 8},
			}},
			admission{Answers: []arrival{{Number: 1, Label: "agent1.2", Seq: 9}, {Number: 3, Label: "agent3.1", Seq: 8}}},
		},
		"the cap counts over the step": {
			injecting(func(t *terms) { t.Most = 2 }),
			standing{Shown: shown, Injected: 1},
			all,
			admission{Answers: []arrival{arrived(3, "agent3.2")}, Messages: messages},
		},
		"the cap is reached": {
			injecting(func(t *terms) { t.Most = 2 }),
			standing{Shown: shown, Injected: 2},
			all,
			admission{Answers: []arrival{}, Messages: messages},
		},
	})
}

// News is admitted, or the step restarts instead.
func TestAdmit_terms(t *testing.T) {
	t.Parallel()
	shown, messages, all := shownBefore(), []int{1, 2}, much()
	soft := func(t *terms) { t.Soft, t.Grace = 10*time.Minute, 2*time.Minute }
	requireAdmitted(t, map[string]admitCase{
		// Seed 001: "allow_midstream_peer_updates_before_checklist_submit: true
		// keeps mid-stream peer updates enabled until the first accepted
		// submit_checklist for the current answer".
		"the window before the checklist is open": {
			injecting(func(t *terms) { t.UntilChecklist = true }),
			standing{Shown: shown},
			news{Arrivals: all.Arrivals[1:2]},
			admission{Answers: []arrival{arrived(2, "agent2.1")}},
		},
		"the window is closed": {
			injecting(func(t *terms) { t.UntilChecklist = true }),
			standing{Shown: shown, Checked: true},
			all,
			admission{Messages: messages},
		},
		"a checklist closes no window that is not its own": {
			injecting(),
			standing{Checked: true},
			news{Arrivals: all.Arrivals[1:2]},
			admission{Answers: []arrival{arrived(2, "agent2.1")}},
		},
		// Seed 001: "If near soft timeout, injection is skipped and restart is deferred".
		"just enough time is left": {
			injecting(soft),
			standing{Worked: 8 * time.Minute},
			news{Arrivals: all.Arrivals[1:2]},
			admission{Answers: []arrival{arrived(2, "agent2.1")}},
		},
		"the soft limit is nearer than the grace": {
			injecting(soft), standing{Worked: 8*time.Minute + 1}, all, admission{Messages: messages},
		},
		"near the soft limit a restart waits too": {
			injecting(func(t *terms) { soft(t); t.Mode = coordination.Restart }),
			standing{Worked: 9 * time.Minute},
			all,
			admission{Messages: messages},
		},
		"asked to finish":             {injecting(), standing{Guided: true}, all, admission{Messages: messages}},
		"the session is about to end": {injecting(), standing{}, news{Arrivals: all.Arrivals, WrapUp: true}, admission{}},
		// Seed 001: "vote-only mode forces restart instead of mid-stream injection
		// so vote options/tool schema refresh correctly".
		"a step that cannot answer begins again": {
			injecting(func(t *terms) { t.Closing = true }),
			standing{Shown: shown},
			all,
			admission{Restart: true, Messages: messages},
		},
		"such a step of mode none does not": {
			terms{Closing: true}, standing{}, all, admission{Messages: messages},
		},
		"mode restart": {
			injecting(func(t *terms) { t.Mode = coordination.Restart }),
			standing{Shown: shown},
			all,
			admission{Restart: true, Messages: messages},
		},
		"mode restart, people said something only": {
			injecting(func(t *terms) { t.Mode = coordination.Restart }),
			standing{},
			news{Messages: []int{3}},
			admission{Messages: []int{3}},
		},
		// Seed 001: "Non-peer runtime payloads can also inject: runtime human input".
		"a message is shown once": {
			injecting(),
			standing{Heard: map[int]bool{1: true}},
			news{Messages: []int{1, 2, 2}},
			admission{Messages: []int{2}},
		},
	})
}
