package cli

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/stretchr/testify/require"

	acts "conclave/activities/session"
	"conclave/engine/coordination"
	"conclave/engine/llm"
	"conclave/workflows"
)

var update = flag.Bool("update", false, "rewrite the golden frames; read the difference before committing it")

// secondRound is a running session: a fresh vote, a stale one, a running agent and a
// failed one.
func secondRound() Snapshot {
	usd := 0.0421
	usage := llm.Usage{InputTokens: 11_000, OutputTokens: 1_345, ModelCalls: 9, TotalUSD: &usd}
	return Snapshot{
		Elapsed: 83 * time.Second,
		State: acts.State{
			SessionID: "20261121-153012-k3f9", Query: "Which \x1b[31mdatabase\x1b[0m should\nwe use?", Status: workflows.Running,
			View: coordination.View{
				Phase: coordination.PhaseCoordinating, Round: 2, Cost: usage, Events: 9,
				Votes: map[string]int{"agent_b": 1},
				Agents: []coordination.AgentView{
					{
						ID: "agent_a", Number: 1, Status: "voted", Step: 2, Answers: 1, LatestLabel: "agent1.1", Cost: usage,
						Vote: &coordination.VoteView{Choice: coordination.Choice{Target: "agent_b", TargetLabel: "agent2.1"}, Step: 2},
					},
					{
						ID: "agent_b", Number: 2, Status: "voted", Step: 2, Answers: 1, LatestLabel: "agent2.1",
						Vote: &coordination.VoteView{Choice: coordination.Choice{Target: "agent_a", TargetLabel: "agent1.1"}, Step: 2, Stale: true},
					},
					{ID: "critic", Number: 4, Status: "answered", Running: true, Step: 1, Answers: 1, LatestLabel: "agent4.1"},
					{ID: "agent_c", Number: 3, Error: &coordination.Failure{Type: "AuthFailed", Message: "the key is refused\nby the server"}},
					{ID: "agent_d", Number: 5},
				},
			},
		},
	}
}

func decided() Snapshot {
	s := secondRound()
	s.Offline = "offline models"
	s.State.Status, s.State.Phase, s.State.Winner = "consensus", coordination.PhaseDone, "agent_b"
	s.State.Votes = map[string]int{"agent_a": 1, "agent_b": 3}
	return s
}

// divided is a decomposition: one agent is done, one blocked, one has a stale stop,
// and one runs again after a retry.
func divided() Snapshot {
	usage := llm.Usage{InputTokens: 1_100, OutputTokens: 134, ModelCalls: 2}
	stop := func(status coordination.StopStatus, summary string, stale bool) *coordination.StopView {
		return &coordination.StopView{Status: status, Summary: summary, Step: 2, Stale: stale}
	}
	s := secondRound()
	s.State.Votes, s.State.Cost, s.State.Attempt, s.State.Messages = nil, usage, 2, 1
	s.State.Agents = []coordination.AgentView{
		{ID: "agent_a", Number: 1, Step: 2, Answers: 1, LatestLabel: "agent1.1", Cost: usage, Stop: stop(coordination.Complete, "The server\x1b[2J is there.", false)},
		{ID: "agent_b", Number: 2, Step: 2, Answers: 1, LatestLabel: "agent2.1", Cost: usage, Stop: stop(coordination.Blocked, "The schema is missing:\n"+strings.Repeat("tables, ", 40), false)},
		{ID: "agent_c", Number: 3, Step: 2, Answers: 1, LatestLabel: "agent3.1", Stop: stop(coordination.Complete, "", true)},
		{ID: "agent_d", Number: 4, Step: 1, Running: true, Error: &coordination.Failure{Type: "Overloaded", Message: "no capacity"}},
	}
	return s
}

func parked() Snapshot {
	s := secondRound()
	s.State.Paused, s.State.Parked = true, new("agent_c failed")
	s.State.Ignored = `say: the input has an unknown key "txet"`
	s.Holds = []Hold{
		{Why: "paused by a person", Release: "`conclave resume s1` resumes it"},
		{Why: "agent_c failed: the key is\x1b[31m refused", Release: "`conclave retry s1` runs its step again"},
	}
	return s
}

func presenting() Snapshot {
	s := secondRound()
	s.State.Phase, s.Revote = coordination.PhasePresenting, true
	s.State.Agents[2].Purpose = coordination.Present
	s.State.Agents[4].Running, s.State.Agents[4].Purpose = true, coordination.Evaluate
	return s
}

// received is a session with an agent that was shown an answer while it worked, and one to which
// this happened in an earlier step.
func received() Snapshot {
	s := secondRound()
	s.Received = Receive(nil, []coordination.Entry{
		{Kind: coordination.EntryInjected, Agent: "agent_a", Step: 1, Label: "agent4.1"},
		{Kind: coordination.EntryInjected, Agent: "agent_a", Step: 2, Label: "agent2.1 agent4.2"},
		{Kind: coordination.EntryInjected, Agent: "agent_b", Step: 1, Label: "agent1.1"},
		{Kind: "vote", Agent: "agent_b", Step: 2, Label: "agent1.1"},
	})
	return s
}

// alike is a session in which several agents failed with the same error.
func alike() Snapshot {
	s := secondRound()
	s.State.Agents[0].Error = &coordination.Failure{Type: "AuthFailed", Message: "another key is refused"}
	for _, i := range []int{1, 4} {
		s.State.Agents[i].Error = &coordination.Failure{Type: "AuthFailed", Message: "the key is refused\nby the server"}
	}
	return s
}

func crowd() Snapshot {
	s := secondRound()
	s.State.Agents = nil
	for i := range 26 {
		s.State.Agents = append(s.State.Agents, coordination.AgentView{ID: fmt.Sprintf("agent_%c", 'a'+i), Running: true})
	}
	return s
}

func atWork(s Snapshot) Snapshot {
	s.Now = time.Date(2026, 11, 22, 8, 0, 41, 0, time.UTC)
	since := s.Now.Add(-41 * time.Second)
	s.Activities = []Activity{
		{Work: "Record", Doing: coordination.Doing{Kind: coordination.Queued, Since: since, Until: s.Now.Add(4 * time.Second), What: "attempt 3 after Storage: the store is down"}},
		{Agent: s.State.Agents[0].ID, Doing: coordination.Doing{
			Kind: coordination.ModelAway, Since: since, Until: s.Now.Add(12 * time.Second),
			What: "model gpt-5.2 at 127.0.0.1:1: no response: dial tcp 127.0.0.1:1: connect: connection refused; check that base_url is right",
		}},
		{Agent: s.State.Agents[2].ID, Doing: coordination.Doing{Kind: coordination.CallsModel, Since: since, What: "model call 3, after run_command make test"}},
		{Agent: s.State.Agents[4].ID, Doing: coordination.Doing{
			Kind: coordination.OnHold, Since: since,
			What: "paused by temporal-cli:kim@desk; `temporal activity unpause --address 127.0.0.1:7233 --namespace default --workflow-id s1 --activity-id agent_d-l5` releases it",
		}},
	}
	return s
}

// saying is a session whose agents' models, answers and reasons are known.
func saying(s Snapshot) Snapshot {
	s.Keys = true
	s.Models, s.Gists = map[string]string{}, map[string]string{}
	for i, a := range s.State.Agents {
		s.Models[a.ID] = []string{"gpt-5.2", "meta-llama/Llama-3.3-70B-Instruct-Turbo", "claude\x1b[31m"}[i%3]
		s.Gists[a.ID] = "Answer of \x1b]0;title\x07" + a.ID + "\nand more"
		s.Recent = append(s.Recent, a.ID)
		if a.Vote != nil {
			s.State.Agents[i].Vote.Reason = "It names\nthe \x1b[2J**owner** of each table, and what happens while the second shard is read-only."
		}
	}
	return s
}

// asking is a session whose person is asked a question at the keys.
func asking(s Snapshot) Snapshot {
	s.Prompt = []string{"  decide now? [y/N] "}
	return s
}

// waitingOut returns a session that waits until its agents' model servers are back.
func waitingOut() Snapshot {
	s := secondRound()
	s.Now = time.Date(2026, 11, 22, 8, 0, 41, 0, time.UTC)
	s.State.Agents[3].Doing = &coordination.Doing{
		Kind: coordination.ModelAway, Since: s.Now.Add(-20 * time.Second), Until: s.Now.Add(100 * time.Second), What: "no response",
	}
	return s
}

func TestFrame(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name          string
		snapshot      Snapshot
		width, height int
		color         bool
	}{
		{"starting", Snapshot{State: acts.State{SessionID: "s1"}}, 80, 24, false},
		{"second-round", secondRound(), 80, 24, false},
		{"second-round-color", secondRound(), 80, 24, true},
		{"second-round-narrow", secondRound(), 34, 24, false},
		{"alike", alike(), 100, 24, false},
		{"received", received(), 120, 24, false},
		{"at-work", atWork(secondRound()), 80, 24, false},
		{"at-work-color", atWork(secondRound()), 80, 24, true},
		{"at-work-narrow", atWork(secondRound()), 40, 24, false},
		{"at-work-waits-only", atWork(secondRound()), 80, 16, false},
		{"at-work-on-a-small-screen", atWork(crowd()), 80, 12, false},
		{"waiting-out", waitingOut(), 80, 24, false},
		{"saying", saying(atWork(secondRound())), 80, 24, false},
		{"saying-color", asking(saying(secondRound())), 80, 24, true},
		{"saying-wide", saying(atWork(secondRound())), 120, 40, false},
		{"saying-narrow", saying(secondRound()), 40, 24, false},
		{"saying-on-a-small-screen", saying(atWork(secondRound())), 80, 17, false},
		{"saying-crowd", saying(crowd()), 80, 24, false},
		{"saying-crowd-wide", saying(crowd()), 120, 40, false},
		{"decided", decided(), 80, 24, false},
		{"divided", divided(), 100, 24, false},
		{"divided-color", divided(), 100, 24, true},
		{"parked", parked(), 80, 24, false},
		{"parked-narrow", parked(), 40, 24, false},
		{"presenting", presenting(), 80, 24, false},
		{"crowd-on-a-small-screen", crowd(), 80, 12, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			lines := formatFrame(tt.snapshot, tt.width, tt.height, tt.color)
			require.Less(t, len(lines), tt.height, "the line below the block stays free")
			var cut []string
			for _, line := range lines {
				cut = append(cut, ansi.Truncate(line, tt.width-1, "…"))
			}
			got := strings.ReplaceAll(strings.Join(cut, "\n"), "\x1b", "<ESC>") + "\n"
			golden := filepath.Join("testdata", tt.name+".golden")
			if *update {
				require.NoError(t, os.WriteFile(golden, []byte(got), 0o644))
			}
			want, err := os.ReadFile(golden)
			require.NoError(t, err)
			require.Equal(t, string(want), got)
		})
	}
}

func TestFrame_withoutColour(t *testing.T) {
	t.Parallel()
	for _, s := range []Snapshot{secondRound(), divided(), parked(), presenting(), saying(secondRound())} {
		for _, line := range SnapshotTable(s) {
			require.NotContains(t, line, "\x1b")
			require.NotContains(t, line, "\n")
		}
	}
}

// The call of a step that has ended is not shown below its agent's new row.
func TestFrame_endedCall(t *testing.T) {
	t.Parallel()
	s := atWork(secondRound())
	s.State.Agents[2].Running = false
	require.NotContains(t, strings.Join(SnapshotTable(s), "\n"), "model call 3")
}

// An agent that a quorum cut off is called so, and one that was away is not.
func TestFrame_cutOff(t *testing.T) {
	t.Parallel()
	s := decided()
	s.State.Cut, s.State.DecidedBy = []string{"critic"}, coordination.ByQuorum
	s.State.Agents[2].Running = false
	require.Contains(t, strings.Join(SnapshotTable(s), "\n"), "  · critic   cut off by the quorum")
	s.State.DecidedBy = coordination.ByVotes
	require.Contains(t, strings.Join(SnapshotTable(s), "\n"), "  · critic   cut off while it was away")
}

func TestFooter_undecided(t *testing.T) {
	t.Parallel()
	s := decided()
	s.State.Status = "undecided"
	require.Contains(t, footerLines(s, false), "  undecided, the best answer is that of agent_b")
}
