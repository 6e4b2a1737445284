package pull

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const wholeStatus = `{"status": "consensus", "winner": "agent_a", "agents": [{"id": "agent_a", "step": 3}, {"id": "agent_b", "step": 2}, {"id": "agent_c", "step": 0}]}`

var wholeEvents = []string{
	`{"seq":1,"kind":"round","text":"round 1"}`,
	`{"seq":2,"kind":"answer","agent":"agent_a","step":1}`,
	`{"seq":3,"kind":"answer","agent":"agent_b","step":1}`,
	`{"seq":4,"kind":"said","agent":"agent_a"}`,
	`{"seq":5,"kind":"vote","agent":"agent_a","step":2}`,
	`{"seq":6,"kind":"stopped","agent":"agent_b","step":2}`,
	`{"seq":7,"kind":"judged","agent":"agent_a","step":3}`,
}

// newRecorded returns a copy of a session with all its records.
func newRecorded(t *testing.T) directory {
	t.Helper()
	d := directory{t: t, root: newDecided(t).pull()}
	d.write("status.json", wholeStatus)
	d.events(wholeEvents)
	d.replace("agents/agent_b/002/action.json", `"agent_b1"`, `"run-1-agent_b-l4"`)
	require.Empty(t, problems(t, d.root))
	return d
}

func (d directory) events(lines []string) { d.write("events.jsonl", strings.Join(lines, "\n")+"\n") }

// losses tampers with a whole directory; want are the problems that verify reports.
var losses = map[string]struct {
	tamper func(d directory)
	want   []string
}{
	"an entry in the middle": {
		func(d directory) { d.remove("ledger/000003.json") },
		[]string{"ledger/000003.json is missing, and there is a later entry"},
	},
	"an entry that counted a step": {
		func(d directory) { d.remove("ledger/000002.json") },
		[]string{"ledger/000002.json is missing, and there is a later entry", "ledger lacks the answer of agent_b's step 1, which events.jsonl has"},
	},
	"the last entry": {
		func(d directory) { d.remove("ledger/000005.json") },
		[]string{"ledger lacks the stop of agent_b's step 2, which events.jsonl has"},
	},
	"the last entry and the events": {
		func(d directory) { d.remove("ledger/000005.json"); d.remove("events.jsonl") },
		[]string{"agents/agent_b/002/action.json commits a stop that the ledger lacks"},
	},
	"the ledger and an agent": {
		func(d directory) { d.remove("ledger"); d.remove("agents/agent_b"); d.remove("events.jsonl") },
		[]string{
			"agents/agent_a/001/action.json commits a new_answer that the ledger lacks",
			"agents/agent_a/002/action.json commits a vote that the ledger lacks",
			"agents/agent_b is missing, and status.json counts 2 of its steps",
		},
	},
	"a step without an action": {
		func(d directory) {
			d.remove("agents/agent_a/003")
		},
		[]string{"agents/agent_a/003 is missing, and status.json counts 3 steps of agent_a"},
	},
	"the status": {
		func(d directory) { d.remove("status.json") },
		[]string{"status.json is missing, and the ledger has entries"},
	},
	"the status and an agent": {
		func(d directory) {
			d.remove("status.json")
			d.write("config.json", `{"agents": [{"id": "agent_a"}, {"id": "agent_b"}, {"id": "agent_c"}]}`)
		},
		[]string{"status.json is missing, and the ledger has entries", "agents/agent_c is missing, and config.json names the agent"},
	},
	"the last entry and its event while the session runs": {
		func(d directory) {
			d.remove("ledger/000005.json")
			d.events(wholeEvents[:5])
			d.replace("status.json", "consensus", "running")
		},
		[]string{"agents/agent_b/002/action.json commits a stop that the ledger lacks"},
	},
	"the last entry and its event of a cancelled session": {
		func(d directory) {
			d.remove("ledger/000005.json")
			d.events(wholeEvents[:5])
			d.replace("status.json", "consensus", "cancelled")
			d.remove("final")
		},
		[]string{"agents/agent_b/002/action.json commits a stop that the ledger lacks"},
	},
	"the team": {
		func(d directory) { d.write("session.json", `{"query": "Why?", "config_hash": "05678e"}`) },
		[]string{"config.json is missing, and session.json has its hash"},
	},
	"an entry after a failure without a number": {
		func(d directory) {
			d.remove("ledger/000005.json")
			d.events(append([]string{`{"seq":1,"kind":"failed","agent":"agent_b"}`}, wholeEvents[1:5]...))
		},
		[]string{"agents/agent_b/002/action.json commits a stop that the ledger lacks"},
	},
	"an entry that follows none": {
		func(d directory) { d.write("ledger/000006.json", `{"run": "run-1", "seq": 9, "action": "say"}`) },
		[]string{"ledger/000006.json cannot be followed: it has entry 9 after 5 entries: an entry between them is missing"},
	},
	"an entry that is no entry": {
		func(d directory) { d.write("ledger/000003.json", `{`) },
		[]string{"ledger/000003.json is malformed: unexpected end of JSON input"},
	},
}

func TestVerify_whatIsLost(t *testing.T) {
	t.Parallel()
	for name, tt := range losses {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newRecorded(t)
			tt.tamper(d)
			require.ElementsMatch(t, tt.want, problems(t, d.root))
		})
	}
}

// A healthy session has no problems.
func TestVerify_whatIsHealthy(t *testing.T) {
	t.Parallel()
	uncounted := func(d directory) {
		d.remove("ledger/000005.json")
		d.events(wholeEvents[:5])
	}
	uncountedYet := func(d directory) {
		uncounted(d)
		d.replace("status.json", `"agent_b", "step": 2`, `"agent_b", "step": 1`)
	}
	for name, tamper := range map[string]func(d directory){
		"a step that was cut off by the decision": uncountedYet,
		"a step of a cancelled session": func(d directory) {
			uncountedYet(d)
			d.replace("status.json", "consensus", "cancelled")
			d.remove("final")
		},
		"a step that is not on record yet": func(d directory) {
			uncountedYet(d)
			d.replace("status.json", "consensus", "running")
		},
		"a refused action": func(d directory) {
			uncounted(d)
			d.events(append(wholeEvents[:5:5], `{"seq":6,"kind":"refused","agent":"agent_b","step":2}`))
		},
		"a step that was suspended after its commit": func(d directory) {
			uncounted(d)
			d.events(append(wholeEvents[:5:5], `{"seq":6,"kind":"suspended","agent":"agent_b","step":2}`))
		},
		"a step whose failure names no number": func(d directory) {
			uncounted(d)
			d.events(append(wholeEvents[:5:5], `{"seq":6,"kind":"failed","agent":"agent_b"}`))
		},
		"a step of the run before a reset": func(d directory) {
			d.events(wholeEvents[:5])
			d.write("ledger/000005.json", `{"run": "run-2", "seq": 4, "agent": "agent_a", "step": 2, "action": "vote"}`)
		},
		"entries that a reset run replaced": func(d directory) {
			d.write("ledger/000006.json", `{"run": "run-2", "seq": 2, "agent": "agent_b", "step": 1, "action": "new_answer"}`)
			d.write("ledger/000007.json", `{"run": "run-2", "seq": 3, "agent": "agent_b", "step": 2, "action": "stop"}`)
		},
		"an agent that never began": func(d directory) { d.write("agents/agent_c/last_action.json", "{}") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newRecorded(t)
			tamper(d)
			require.Empty(t, problems(t, d.root))
		})
	}
}

// A worker that dies after a commit that a quorum or a cancellation has overtaken leaves a commit
// without documents, and nobody mends it. It is named, and no problem.
func TestVerify_lateCommit(t *testing.T) {
	t.Parallel()
	for status, uncounted := range map[string][]string{"consensus": {"agents/agent_b/002"}, "cancelled": {"agents/agent_b/002"}, "running": nil} {
		d := newRecorded(t)
		d.remove("ledger/000005.json")
		d.events(append(wholeEvents[:5:5], `{"seq":6,"kind":"ignored","agent":"agent_b","step":2}`))
		d.replace("status.json", "consensus", status)
		d.remove("agents/agent_b/002/stop.json")
		if status == "cancelled" {
			d.remove("final")
		}
		v, err := verifyDir(t.Context(), d.root)
		require.NoError(t, err)
		require.Equal(t, uncounted, v.Uncounted)
		require.Empty(t, v.Problems)

		d.write("agents/agent_b/002/stop.json", `{"agent_id": "agent_b", "status": "blocked"}`)
		require.Contains(t, problems(t, d.root), "agents/agent_b/002/stop.json does not agree with action.json: status", "what is there agrees")
	}
}

// An end without a number excuses one step whose number lies between those of the ends around it.
func TestTold_excuse(t *testing.T) {
	t.Parallel()
	told := told{"agent_a": {1, 0, 4, 0}}
	require.False(t, told.excuse("agent_b", 2))
	require.True(t, told.excuse("agent_a", 2))
	require.False(t, told.excuse("agent_a", 3), "there was one such end")
	require.True(t, told.excuse("agent_a", 5))
	require.False(t, told.excuse("agent_a", 6))
}
