package directory

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/engine/coordination"
)

// summarize returns a report in one line: the agents' states, the next agents, and
// the result of the votes.
func summarize(r report) string {
	var agents []string
	for _, a := range r.Agents {
		state := string(a.Status)
		switch {
		case a.Vote != nil:
			state = "voted:" + a.Vote.Target
		case a.Stop != nil:
		case a.LatestLabel != "":
			state += ":" + a.LatestLabel
		}
		if a.Vote != nil && a.Vote.Stale || a.Stop != nil && a.Stop.Stale {
			state += ":stale"
		}
		if a.Running {
			state += ":running"
		}
		agents = append(agents, strings.TrimPrefix(a.ID, "agent_")+"="+state)
	}
	end := "next " + strings.ReplaceAll(strings.Join(r.Next, ","), "agent_", "")
	switch {
	case r.Consensus != nil:
		end = fmt.Sprintf("consensus %s with %d", r.Consensus.WinnerLabel, r.Consensus.Votes)
	case r.Split:
		end = "split"
	}
	return strings.Join(agents, " ") + " | " + strings.TrimSpace(end)
}

// The state after each action of a session of three agents.
func TestLifecycle(t *testing.T) {
	t.Parallel()
	s := newSession(t, nil)
	team := coordination.Config{Agents: []string{"agent_a", "agent_b", "agent_c"}}
	require.Equal(t, "a=no_action b=no_action c=no_action | next a,b,c", summarize(s.clean().Check(team, nil)))
	first := []string{"agent_a:1", "agent_b:1", "agent_c:1"}
	second := []string{"agent_a:1", "agent_b:1", "agent_c:2"}
	for _, action := range []struct{ file, content, want string }{
		{"agent_a/001/answer.json", answerJSON("A"), "a=answered:agent1.1 b=no_action c=no_action | next a,b,c"},
		{"agent_b/001/answer.json", answerJSON("B"), "a=answered:agent1.1 b=answered:agent2.1 c=no_action | next a,b,c"},
		{"agent_c/001/answer.json", answerJSON("C"), "a=answered:agent1.1 b=answered:agent2.1 c=answered:agent3.1 | next a,b,c"},

		{"agent_a/002/vote.json", vote("agent_b", first...), "a=voted:agent_b b=answered:agent2.1 c=answered:agent3.1 | next b,c"},
		{"agent_b/002/vote.json", vote("agent_b", first...), "a=voted:agent_b b=voted:agent_b c=answered:agent3.1 | next c"},
		{"agent_c/002/answer.json", answerJSON("C2"), "a=voted:agent_b:stale b=voted:agent_b:stale c=answered:agent3.2 | next a,b,c"},

		{"agent_a/003/vote.json", vote("agent_c", second...), "a=voted:agent_c b=voted:agent_b:stale c=answered:agent3.2 | next b,c"},
		{"agent_b/003/vote.json", vote("agent_c", second...), "a=voted:agent_c b=voted:agent_c c=answered:agent3.2 | next c"},
		{"agent_c/003/vote.json", vote("agent_c", second...), "a=voted:agent_c b=voted:agent_c c=voted:agent_c | consensus agent3.2 with 3"},
	} {
		s.write("agents/"+action.file, action.content)
		require.Equal(t, action.want, summarize(s.clean().Check(team, nil)), action.file)
	}
	r := s.clean().Check(coordination.Config{}, nil)
	require.Equal(t, &consensus{Winner: "agent_c", WinnerLabel: "agent3.2", WinnerStep: 2, Votes: 3}, r.Consensus)
	require.Equal(t, map[string]int{"agent_c": 3}, r.Votes)
	require.Empty(t, r.Reason)
}

// The directory was written by MassGen.
func TestCheck_directoryOfAnotherProgram(t *testing.T) {
	t.Parallel()
	root, err := os.OpenRoot("testdata/massgen")
	require.NoError(t, err)
	defer root.Close()
	d, _, err := Read(root)
	require.NoError(t, err)
	require.Equal(t, "a=voted:agent_b:stale b=voted:agent_b:stale c=answered:agent3.2 | next a,b,c", summarize(d.Check(coordination.Config{}, nil)))
}

// checked is a directory with the expected summary.
type checked struct {
	files  map[string]string // below agents/
	rules  coordination.Config
	want   string // as told says it
	reason string // empty: not looked at
}

func checkAll(t *testing.T, cases map[string]checked) {
	t.Helper()
	for name, tt := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			files := map[string]string{}
			for name, content := range tt.files {
				files["agents/"+name] = content
			}
			d, _ := newSession(t, files).read()
			r := d.Check(tt.rules, nil)
			require.Equal(t, tt.want, strings.TrimSpace(summarize(r)))
			if tt.reason != "" {
				require.Equal(t, tt.reason, r.Reason)
			}
			require.Equal(t, r.Consensus == nil, r.Reason != "")
		})
	}
}

func TestCheck_votes(t *testing.T) {
	t.Parallel()
	all := []string{"a:1", "b:1", "c:1"}
	three := func(files map[string]string) map[string]string {
		got := map[string]string{
			"a/001/answer.json": answerJSON("A"), "b/001/answer.json": answerJSON("B"), "c/001/answer.json": answerJSON("C"),
		}
		for name, content := range files {
			got[name] = content
		}
		return got
	}
	checkAll(t, map[string]checked{
		"nobody": {nil, coordination.Config{}, "| next", "no agent has begun"},
		"split, all fresh": {
			three(map[string]string{"a/002/vote.json": vote("a", all...), "b/002/vote.json": vote("b", all...), "c/002/vote.json": vote("c", all...)}),
			coordination.Config{OnSplit: "revote", MaxRevotes: 3},
			"a=voted:a b=voted:b c=voted:c | split", "every vote is fresh, and no answer has more than half of 3: nobody is asked again",
		},
		"half is no majority": {
			map[string]string{
				"a/001/answer.json": answerJSON("A"), "b/001/answer.json": answerJSON("B"),
				"a/002/vote.json": vote("a", "a:1", "b:1"), "b/002/vote.json": vote("b", "a:1", "b:1"),
			}, coordination.Config{}, "a=voted:a b=voted:b | split", "",
		},
		"two of three": {
			three(map[string]string{"a/002/vote.json": vote("b", all...), "b/002/vote.json": vote("b", all...), "c/002/vote.json": vote("a", all...)}),
			coordination.Config{},
			"a=voted:b b=voted:b c=voted:a | consensus agent2.1 with 2", "",
		},
		"a majority waits for all": {
			three(map[string]string{"a/002/vote.json": vote("b", all...), "b/002/vote.json": vote("b", all...)}),
			coordination.Config{},
			"a=voted:b b=voted:b c=answered:agent3.1 | next c", "of 3 agents 3 have an answer, and 2 a vote that counts",
		},
		"and for those named who have not begun": {
			map[string]string{"a/001/answer.json": answerJSON("A"), "a/002/vote.json": vote("a", "a:1")},
			coordination.Config{Agents: []string{"a", "b"}},
			"a=voted:a b=no_action | next b", "",
		},
		"one agent": {
			map[string]string{"a/001/answer.json": answerJSON("A"), "a/002/vote.json": vote("a", "a:1")},
			coordination.Config{},
			"a=voted:a | consensus agent1.1 with 1", "",
		},
		"a vote without seen_steps is stale": {
			map[string]string{"a/001/answer.json": answerJSON("A"), "a/002/vote.json": `{"target": "a"}`},
			coordination.Config{},
			"a=voted:a:stale | next a", "",
		},
		"so is one that has not seen the voter's own answer": {
			map[string]string{"a/001/answer.json": answerJSON("A"), "b/001/answer.json": answerJSON("B"), "a/002/vote.json": vote("b", "b:1")},
			coordination.Config{},
			"a=voted:b:stale b=answered:agent2.1 | next a,b", "",
		},
		"and one that saw a future step": {
			map[string]string{"a/001/answer.json": answerJSON("A"), "a/002/vote.json": vote("a", "a:9")},
			coordination.Config{},
			"a=voted:a:stale | next a", "",
		},
		"an agent with an ID that no configuration accepts takes part": {
			map[string]string{
				"b/001/answer.json": answerJSON("B"), "c/001/answer.json": answerJSON("C"),
				"gemini2.5flash/001/answer.json": answerJSON("G"), "gemini2.5flash/002/answer.json": answerJSON("G2"),
				"b/002/vote.json": vote("b", "b:1", "c:1", "gemini2.5flash:1"), "c/002/vote.json": vote("b", "b:1", "c:1", "gemini2.5flash:1"),
			},
			coordination.Config{},
			"b=voted:b:stale c=voted:b:stale gemini2.5flash=answered:agent3.2 | next b,c,gemini2.5flash", "",
		},
		"an agent that a vote saw and that is gone does not matter": {
			map[string]string{"a/001/answer.json": answerJSON("A"), "a/002/vote.json": vote("a", "a:1", "gone:4")},
			coordination.Config{},
			"a=voted:a | consensus agent1.1 with 1", "",
		},
		"a broken answer makes no vote stale": {
			three(map[string]string{
				"a/002/vote.json": vote("b", all...), "b/002/vote.json": vote("b", all...), "c/002/answer.json": "torn", "c/003/vote.json": vote("b", all...),
			}), coordination.Config{}, "a=voted:b b=voted:b c=voted:b | consensus agent2.1 with 3", "",
		},
	})
}

func TestCheck_stopsAndLimits(t *testing.T) {
	t.Parallel()
	checkAll(t, map[string]checked{
		"stops and no votes: the work is divided": {
			map[string]string{
				"a/001/answer.json": answerJSON("A"), "b/001/answer.json": answerJSON("B"),
				"a/002/stop.json": stop("complete", "a:1", "b:1"), "b/002/stop.json": stop("blocked", "a:1", "b:1"),
			}, coordination.Config{}, "a=stopped b=stopped | next", "every agent has stopped: there is no vote where the work is divided",
		},
		"a stop goes stale": {
			map[string]string{
				"a/001/answer.json": answerJSON("A"), "b/001/answer.json": answerJSON("B"),
				"a/002/stop.json": stop("complete", "a:1"), "b/002/stop.json": stop("complete", "a:1", "b:1"),
			}, coordination.Config{}, "a=stopped:stale b=stopped | next a", "",
		},
		"nobody votes": {
			map[string]string{"a/001/answer.json": answerJSON("A"), "b/001/answer.json": answerJSON("B")},
			coordination.Config{SkipVoting: true},
			"a=answered:agent1.1 b=answered:agent2.1 | next", "every agent has answered, and nobody votes",
		},
		"the step limit": {
			map[string]string{"a/001/answer.json": answerJSON("A"), "a/002/answer.json": answerJSON("A2"), "b/001/answer.json": answerJSON("B")},
			coordination.Config{MaxStepsPerAgent: 2},
			"a=answered:agent1.2 b=answered:agent2.1 | next b", "",
		},
		"the step limit of all": {
			map[string]string{"a/001/answer.json": answerJSON("A"), "a/002/answer.json": answerJSON("A2")},
			coordination.Config{MaxStepsPerAgent: 2},
			"a=answered:agent1.2 | next", "the agents that owe an action have reached a limit",
		},
		"no step limit unless there is one": {
			func() map[string]string {
				files := map[string]string{}
				for n := range 40 {
					files[fmt.Sprintf("a/%03d/answer.json", n+1)] = answerJSON("A")
				}
				return files
			}(), coordination.Config{}, "a=answered:agent1.40 | next a", "",
		},
		"voting waits for first answers": {
			map[string]string{"a/001/answer.json": answerJSON("A"), "b/001/": ""},
			coordination.Config{DeferVoting: true},
			"a=answered:agent1.1 b=no_action | next b", "",
		},
	})
}

// A running step blocks decisions and launches; an interrupted one does not.
func TestCheck_unfinishedSteps(t *testing.T) {
	t.Parallel()
	s := newSession(t, map[string]string{
		"agents/a/001/answer.json": answerJSON("A"), "agents/a/002/vote.json": vote("a", "a:1"), "agents/a/003/step.json": `{"token": "t"}`,
	})
	r := s.clean().Check(coordination.Config{}, nil)
	require.Equal(t, "a=voted:a | consensus agent1.1 with 1", summarize(r))
	require.Equal(t, []int{3}, r.Agents[0].Unfinished)
	require.Equal(t, 3, r.Agents[0].Step)
	r = s.clean().Check(coordination.Config{}, func(agent string, step int) bool { return agent == "a" && step == 3 })
	require.Equal(t, "a=voted:a:running | next", summarize(r))
	require.Equal(t, "a is at work", r.Reason)
}

func TestReport_JSON(t *testing.T) {
	t.Parallel()
	d, warnings := newSession(t, map[string]string{
		"agents/a/001/answer.json": answerJSON("A"), "agents/b/001/vote.json": vote("a", "a:1"), "agents/c/001/vote.json": "",
	}).read()
	require.Len(t, warnings, 1)
	data, err := json.Marshal(d.Check(coordination.Config{}, nil))
	require.NoError(t, err)
	require.JSONEq(t, `{
		"agents": [
			{"id": "a", "number": 1, "status": "answered", "running": false, "step": 1, "answers": 1, "latest_label": "agent1.1", "vote": null, "stop": null, "unfinished": []},
			{"id": "b", "number": 2, "status": "voted", "running": false, "step": 1, "answers": 0, "latest_label": "",
				"vote": {"target": "a", "target_label": "agent1.1", "step": 1, "stale": false, "reason": "because"}, "stop": null, "unfinished": []},
			{"id": "c", "number": 3, "status": "no_action", "running": false, "step": 1, "answers": 0, "latest_label": "", "vote": null, "stop": null, "unfinished": []}
		],
		"votes": {"a": 1}, "next": ["a", "c"], "consensus": null, "split": false,
		"reason": "of 3 agents 1 have an answer, and 1 a vote that counts", "warnings": []
	}`, string(data))
}
