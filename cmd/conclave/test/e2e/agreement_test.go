//go:build e2e

package e2e

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	sessionflow "conclave/workflows/session"
)

// Sessions in which agents agree, or refine their answers alone.
func TestAgreement(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	const again = `{"name": "new_answer", "arguments": {"content": "42"}}`
	for name, tt := range map[string]struct {
		settings map[string]any
		a, b     []reply
		want     sessionflow.Result // Winner, WinnerLabel and Answer
		check    func(t *testing.T, s site, m *modelServer, id string)
	}{
		"models that cannot call": {
			settings: map[string]any{"disable_injection": true},
			a:        []reply{plain("model-a", "I have to think."), plain("model-a", "42"), plain("model-a", "agent1")},
			b:        []reply{plain("model-b", "```json\n{\"name\": \"new_answer\", \"arguments\": {\"content\": \"About 40.\"}}\n```"), plain("model-b", again), plain("model-b", again)},
			want:     sessionflow.Result{Winner: "agent_a", WinnerLabel: "agent1.1", Answer: "42"},
			check: func(t *testing.T, s site, m *modelServer, id string) {
				require.Contains(t, m.request("model-a", 2), "reply with your complete answer as plain text")
				require.Contains(t, m.request("model-b", 3), "To support agent1.1, call vote")
				transcript, err := s.store.Get(t.Context(), "sessions/"+id+"/agents/agent_b/001/transcript.jsonl")
				require.NoError(t, err)
				require.Contains(t, string(transcript), `"salvaged"`)
			},
		},
		"weak models": {
			settings: map[string]any{"disable_injection": true},
			a:        []reply{plain("model-a", "I have to think."), plain("model-a", "`new_answer`"), plain("model-a", "42"), vote("1.1", "Mine.")},
			b: []reply{
				plain("model-b", strings.Repeat("flood ", 1<<20)), answer("About 40."),
				plain("model-b", `{"name": "vote", "arguments": {"agent_id": "1.1", "reason": "it is right”}}`),
			},
			want: sessionflow.Result{Winner: "agent_a", WinnerLabel: "agent1.1", Answer: "42"},
			check: func(t *testing.T, s site, m *modelServer, id string) {
				require.Contains(t, m.request("model-a", 3), "Your reply is only the name of a tool")
				require.Contains(t, m.request("model-b", 2), "Your last reply was broken off and discarded")
				require.NotContains(t, m.request("model-b", 2), "flood")
				transcript, err := s.store.Get(t.Context(), "sessions/"+id+"/agents/agent_b/001/transcript.jsonl")
				require.NoError(t, err)
				require.Contains(t, string(transcript), `"reply_too_long"`)
				require.Less(t, len(transcript), 1<<20)
			},
		},
		"better files with the same text": {
			settings: map[string]any{"disable_injection": true},
			a: []reply{
				write("x.html", "1"), answer("The site is /workspace/x.html."),
				write("x.html", "2, better"), answer("The site is /workspace/x.html."), vote("agent1", "Mine."),
			},
			b:    []reply{answer("No site."), vote("agent1", "It is a site."), vote("agent1", "A better one.")},
			want: sessionflow.Result{Winner: "agent_a", WinnerLabel: "agent1.2", Answer: "The site is x.html."},
			check: func(t *testing.T, s site, m *modelServer, id string) {
				require.Contains(t, m.request("model-b", 2), "The site is peers/agent1/x.html.")
				page, err := s.store.Get(t.Context(), "sessions/"+id+"/final/agent_a/workspace/x.html")
				require.NoError(t, err)
				require.Equal(t, "2, better", string(page))
			},
		},
		"refinement alone": {
			settings: map[string]any{"peer_visibility": "none", "max_new_answers_per_agent": 2},
			a:        []reply{answer("First of a."), answer("Second of a."), vote("agent2", "It is right.")},
			b:        []reply{answer("First of b."), vote("agent2", "It is done."), vote("agent2", "Still.")},
			want:     sessionflow.Result{Winner: "agent_b", WinnerLabel: "agent2.1", Answer: "First of b."},
			check: func(t *testing.T, _ site, m *modelServer, _ string) {
				require.Contains(t, m.request("model-a", 2), "First of a.")
				require.NotContains(t, m.request("model-a", 2), "First of b.")
				require.Contains(t, m.request("model-a", 3), "First of b.")
			},
		},
		"equal answers without a majority": {
			settings: map[string]any{"on_split": "plurality", "disable_injection": true},
			a:        []reply{answer("Think.\nANSWER: 42"), vote("agent1", "Mine.")},
			b:        []reply{answer("Guess.\nANSWER: 42."), vote("agent2", "Mine.")},
			want:     sessionflow.Result{Winner: "agent_a", WinnerLabel: "agent1.1", Answer: "Think.\nANSWER: 42"},
			check: func(t *testing.T, _ site, m *modelServer, _ string) {
				require.Contains(t, m.request("model-b", 2), "agent1.1, agent2.1: the same answer, given by 2 agents")
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := *s
			s.t = t
			model := newModelServer(t, map[string][]reply{"model-a": tt.a, "model-b": tt.b})
			id := "agree-" + strings.ReplaceAll(name, " ", "-")
			run := s.begin(t, s.worker(model.teamWith(orchestrator(tt.settings), pair...)), id, sessionflow.Input{Query: "What is it?"})
			var result sessionflow.Result
			require.NoError(t, run.Get(t.Context(), &result))
			require.Equal(t, tt.want, sessionflow.Result{Winner: result.Winner, WinnerLabel: result.WinnerLabel, Answer: result.Answer})
			tt.check(t, s, model, id)
		})
	}
}

// With fewer agents than min_active_agents nothing is decided by vote.
func TestTooFewAgents(t *testing.T) {
	t.Parallel()
	model := newModelServer(t, map[string][]reply{
		"model-a": {answer("Alone."), vote("agent1", "Mine.")}, "model-b": {fails(401)}, "model-c": {fails(401)},
	})
	c := newCLI(t)
	team := c.file("team.yaml", model.teamWith(orchestrator(map[string]any{"min_active_agents": 2}), "agent_a", "agent_b", "agent_c"))
	out := c.conclave("run", "--automation", "--config", team, "Who?")
	require.Equal(t, 2, out.code, out.stderr)
	result := out.result(t, "failed")
	require.Equal(t, "TooFewAgents", result.Error.Type)
	require.Contains(t, out.stderr, "fewer agents than orchestrator.min_active_agents are left to vote")
	require.LessOrEqual(t, model.calls("model-a"), 2, "the session ends as soon as too few agents are left")
}
