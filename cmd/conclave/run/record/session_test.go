package record

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/activities"
	acts "conclave/activities/session"
	"conclave/cmd/conclave/test/stage"
	"conclave/engine/coordination"
	"conclave/engine/files/artifact"
	"conclave/engine/llm"
	"conclave/workflows"
)

// The record of every kind of session says the same as the core that decided it.
func TestRead_everyScript(t *testing.T) {
	t.Parallel()
	for _, script := range stage.Scripts {
		t.Run(script.Name, func(t *testing.T) {
			t.Parallel()
			p := script.Play(t)
			s := reading(t, p.Dir)
			require.Empty(t, s.Problems)
			require.Equal(t, p.Events(), s.Events)
			require.Equal(t, p.State.View().Agents, s.State.Agents)
			require.Len(t, s.Agents, len(s.Team.Agents))

			d := p.Decision()
			require.NotNil(t, d)
			require.False(t, s.Running())
			require.Equal(t, d.Winner != "", s.State.Winner != "")
			requireWinner(t, s, d)
			require.False(t, s.Ended().Before(s.Events[len(s.Events)-1].Time))
			require.Equal(t, stage.Began, s.Began())

			actions := 0
			for _, e := range p.Ledger {
				if e.Step == 0 { // a message or a request
					continue
				}
				step := s.Step(e.Agent, e.Step)
				require.NotNil(t, step)
				require.True(t, step.Accepted)
				require.True(t, step.Over)
				require.Equal(t, string(e.Action), step.Action)
				actions++
			}
			for _, each := range s.Steps {
				require.True(t, each.Ended.IsZero() || !each.Ended.Before(each.Started), "%s %d", each.Agent, each.Number)
				if each.Accepted {
					actions--
				}
			}
			require.Zero(t, actions, "an action counts once")
			requireVotes(t, s)
		})
	}
}

// requireWinner compares the steps of the winner and of the final answer with the decision.
func requireWinner(t *testing.T, s *Session, d *coordination.Decision) {
	t.Helper()
	if d.Winner == "" {
		require.Nil(t, s.Winner())
		require.Nil(t, s.Final())
		return
	}
	require.Equal(t, d.Winner, s.Winner().Agent)
	require.Equal(t, d.WinnerLabel, s.Winner().Answer.Label)
	final := d.WinnerLabel
	if d.Final != nil {
		final = d.Final.Label
	}
	require.Equal(t, final, s.Final().Answer.Label)
	require.Equal(t, s.Final(), s.Answered(final))
}

// requireVotes compares the votes that stand with those of the state.
func requireVotes(t *testing.T, s *Session) {
	t.Helper()
	standing := map[string]int{}
	for _, p := range s.Steps {
		if p.Vote != nil && p.Vote.Stands && p.Vote.Stale == nil {
			require.NotContains(t, standing, p.Agent)
			standing[p.Agent] = p.Number
		}
	}
	for _, a := range s.State.Agents {
		if a.Vote != nil && !a.Vote.Stale {
			require.Equal(t, a.Vote.Step, standing[a.ID], a.ID)
		}
	}
}

// Answers are listed in the order in which they ended.
func TestSession_answers(t *testing.T) {
	t.Parallel()
	s := reading(t, stage.ThreeRounds(t).Dir)
	var labels []string
	for _, p := range s.Answers() {
		labels = append(labels, p.Answer.Label)
	}
	require.Equal(t, []string{"agent1.1", "agent2.1", "agent3.1", "agent3.2"}, labels)
	require.Nil(t, s.Answered("agent9.1"))
	require.Nil(t, s.Agent("agent_z"))
	require.Nil(t, s.Step("agent_a", 99))
}

func TestSession_winner(t *testing.T) {
	t.Parallel()
	first, second := answered("a", 1, 10), answered("a", 2, 20)
	final := answered("a", 3, 30)
	final.Answer = &Answer{Label: "agent1.final", Final: true}
	for name, tc := range map[string]struct {
		state         acts.State
		events        []coordination.Entry
		winner, final *Step
	}{
		"running":            {state: acts.State{Status: workflows.Running, View: coordination.View{Winner: "a"}}},
		"no decision":        {state: acts.State{Status: "failed"}},
		"by the events":      {state: decidedFor("a", nil), events: []coordination.Entry{{Kind: coordination.EntryDecided, Agent: "a", Step: 1}}, winner: first, final: first},
		"without events":     {state: decidedFor("a", nil), winner: second, final: second},
		"presented":          {state: decidedFor("a", &acts.FinalAnswer{Agent: "a", Label: "agent1.final"}), winner: second, final: final},
		"a lost final":       {state: decidedFor("a", &acts.FinalAnswer{Agent: "b", Label: "agent2.final"}), winner: second, final: second},
		"a winner not there": {state: decidedFor("z", nil)},
	} {
		s := &Session{Steps: []*Step{first, second, final}, State: tc.state, Events: tc.events}
		require.Equal(t, tc.winner, s.Winner(), name)
		require.Equal(t, tc.final, s.Final(), name)
	}
}

func decidedFor(winner string, final *acts.FinalAnswer) acts.State {
	return acts.State{Status: "consensus", Final: final, View: coordination.View{Winner: winner}}
}

// A session lasts from its claim, else its first step, to its last event, else its last step.
func TestSession_times(t *testing.T) {
	t.Parallel()
	s := &Session{}
	require.Zero(t, s.Began())
	require.Zero(t, s.Ended())
	s.Steps = []*Step{answered("a", 1, 10), {Agent: "b", Number: 1, Started: at(12)}}
	require.Equal(t, at(9), s.Began())
	require.Equal(t, at(12), s.Ended(), "a running step has no end")
	s.Created = at(1)
	require.Equal(t, at(1), s.Began())
	s.Events = []coordination.Entry{{Kind: coordination.EntryAnswer, Time: at(10)}, {Kind: coordination.EntryIgnored, Time: at(90)}}
	require.Equal(t, at(10), s.Ended(), "late events are after the end")
}

func TestCeiling_withoutAPlan(t *testing.T) {
	t.Parallel()
	require.Empty(t, (&Evaluation{}).Ceiling())
}

// A text that a model was told is shortened to a line.
func TestTold(t *testing.T) {
	t.Parallel()
	require.Empty(t, rejectionText(nil))
	require.Empty(t, rejectionText([]llm.Message{{}, {Role: llm.ToolRole}}))
	require.Equal(t, "first second", rejectionText([]llm.Message{{}, {Content: "first\n\nsecond"}, {Content: "third"}}))
	long := rejectionText([]llm.Message{{Content: string(make([]byte, 300)) + "é" + string(make([]byte, 300))}})
	require.LessOrEqual(t, len(long), 400)
}

// The content of a file is that of the workspace, else that of the blob.
func TestReader_content(t *testing.T) {
	t.Parallel()
	p := stage.ThreeRounds(t)
	r := NewReader(p.Store, p.Layout, nil)
	s, err := r.Read(t.Context())
	require.NoError(t, err)
	final := s.Final()
	require.Len(t, final.Answer.Files, 3)
	for _, f := range final.Answer.Files {
		whole, err := r.Content(t.Context(), final.Dir, f, 1<<20)
		require.NoError(t, err)
		require.Len(t, whole, int(f.Size))
		part, err := r.Content(t.Context(), final.Dir, f, 3)
		require.NoError(t, err)
		require.Equal(t, whole[:3], part)

		require.NoError(t, p.Store.Delete(t.Context(), p.Layout.File(final.Dir+"workspace/"+f.Path)))
		blob, err := r.Content(t.Context(), final.Dir, f, 1<<20)
		require.NoError(t, err)
		require.Equal(t, whole, blob)
		_, err = r.Content(t.Context(), final.Dir, artifact.File{Path: f.Path}, 1<<20)
		require.ErrorIs(t, err, artifact.ErrNotFound)
		require.ErrorContains(t, err, "read "+f.Path+" of "+final.Dir)
	}
	for _, wrong := range []string{"", "../action.json", "/etc/passwd", "a//b"} {
		_, err := r.Content(t.Context(), final.Dir, artifact.File{Path: wrong}, 1<<20)
		require.Error(t, err, "%q", wrong)
	}
	transcript, err := r.Transcript(t.Context(), final)
	require.NoError(t, err)
	require.NotEmpty(t, transcript.Lines)
}

// A step has the rejections of the attempt that committed, not those of one whose late transcript
// lies at transcript.jsonl.
func TestRead_lateTranscript(t *testing.T) {
	t.Parallel()
	p := stage.Named(t, "many rejections")
	key := p.Layout.Step("agent_a", 1, "transcript.jsonl")
	committed, err := p.Store.Get(t.Context(), key)
	require.NoError(t, err)
	action := p.Layout.Step("agent_a", 1, "action.json")
	commit, err := artifact.ReadJSON[artifact.Commit](t.Context(), p.Store, action)
	require.NoError(t, err)
	commit.Transcript, err = artifact.PutBlob(t.Context(), p.Store, p.Layout, committed)
	require.NoError(t, err)
	require.NoError(t, artifact.PutJSON(t.Context(), p.Store, action, commit))
	require.NoError(t, p.Store.Put(t.Context(), key, strings.NewReader(`{"kind":"rejection","reason":"late","messages":[]}`+"\n")))

	r := NewReader(p.Store, p.Layout, nil)
	s, err := r.Read(t.Context())
	require.NoError(t, err)
	of := s.Step("agent_a", 1)
	require.Len(t, of.Rejections, 2)
	require.Equal(t, "no_tool_calls", of.Rejections[0].Code)
	conversation, err := r.Transcript(t.Context(), of)
	require.NoError(t, err)
	require.Len(t, conversation.Lines, bytes.Count(committed, []byte("\n")))
}

// The step that a quorum cut off says so.
func TestRead_cutOff(t *testing.T) {
	t.Parallel()
	p := stage.Named(t, "quorum")
	store, err := artifact.NewDir(p.Dir)
	require.NoError(t, err)
	last := artifact.LastAction{AgentID: "agent_c", Action: "none", StepNumber: 2, Error: &artifact.Error{Type: activities.Cancelled, Message: "the step was cut short"}}
	require.NoError(t, artifact.PutJSON(t.Context(), store, p.Layout.Agent("agent_c", "last_action.json"), last))
	s := reading(t, p.Dir)
	cut := s.Steps[slices.IndexFunc(s.Steps, func(p *Step) bool { return p.Agent == "agent_c" && p.Number == 2 })]
	require.Equal(t, &artifact.Error{Type: activities.Cancelled, Message: "cut off by the quorum"}, cut.Error)
}
