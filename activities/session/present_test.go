package session

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/testsuite"

	"conclave/activities/attempt"
	"conclave/activities/workertest"
	"conclave/engine/coordination"
	"conclave/engine/files/artifact"
	"conclave/engine/session"
)

// stage is a session's directory with the activity Present.
type stage struct {
	*testsuite.TestActivityEnvironment
	t      *testing.T
	store  *artifact.Dir
	layout artifact.Layout
}

func newStage(t *testing.T) *stage {
	t.Helper()
	store, err := artifact.NewDir(t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { _ = store.Close() })
	s := &stage{t: t, store: store, layout: artifact.InBucket("s1")}
	var suite testsuite.WorkflowTestSuite
	s.TestActivityEnvironment = suite.NewTestActivityEnvironment()
	s.SetTestTimeout(2 * time.Minute)
	(&Activities{Process: attempt.Process{Equipment: &workertest.Worker{}, Store: store, Now: time.Now}}).RegisterBookkeeping(s)
	return s
}

// win commits an answer with files and presents it.
func (s *stage) win(agent string, number int, text string, files map[string]string) {
	s.t.Helper()
	s.commit(agent, number, text, files)
	s.present(coordination.Decision{Winner: agent, WinnerStep: number, WinnerLabel: "agent1.1"})
}

func (s *stage) commit(agent string, number int, text string, files map[string]string) {
	s.t.Helper()
	payload, err := json.Marshal(session.Answer{Answer: text, Label: "agent1.1"})
	require.NoError(s.t, err)
	commit := artifact.Commit{Kind: string(coordination.NewAnswer), Payload: payload}
	if len(files) > 0 {
		commit.Manifest = s.manifest(files)
	}
	require.NoError(s.t, artifact.CreateJSON(s.t.Context(), s.store, s.layout.Step(agent, number, "action.json"), commit))
}

func (s *stage) present(d coordination.Decision) Presented {
	s.t.Helper()
	value, err := s.ExecuteActivity("Present", PresentInput{Session: "s1", Decision: d})
	require.NoError(s.t, err)
	var p Presented
	require.NoError(s.t, value.Get(&p))
	return p
}

func (s *stage) manifest(files map[string]string) string {
	s.t.Helper()
	var m artifact.Manifest
	for _, path := range []string{"a", "a/b.txt", "b c.txt", "common.txt"} {
		content, ok := files[path]
		if !ok {
			continue
		}
		sum, err := artifact.PutBlob(s.t.Context(), s.store, s.layout, []byte(content))
		require.NoError(s.t, err)
		m.Files = append(m.Files, artifact.File{Path: path, Mode: 0o644, Size: int64(len(content)), SHA256: sum})
	}
	data, err := artifact.EncodeJSON(m)
	require.NoError(s.t, err)
	sum, err := artifact.PutBlob(s.t.Context(), s.store, s.layout, data)
	require.NoError(s.t, err)
	return sum
}

func (s *stage) final() []string {
	s.t.Helper()
	var keys []string
	for key, err := range s.store.List(s.t.Context(), s.layout.File("final/")) {
		require.NoError(s.t, err)
		keys = append(keys, key)
	}
	return keys
}

// A session that was reset may end differently: final/ holds only the files of its last
// answer.
func TestPresent_finalIsOfOneAnswer(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		winner string
		files  map[string]string
		want   []string
	}{
		"another winner": {"agent_b", map[string]string{"b c.txt": "x"}, []string{
			"sessions/s1/final/agent_b/answer.json", "sessions/s1/final/agent_b/workspace.json", "sessions/s1/final/agent_b/workspace/b=20c.txt",
		}},
		"another winner without files": {"agent_b", nil, []string{"sessions/s1/final/agent_b/answer.json"}},
		"the same winner, other files": {"agent_a", map[string]string{"b c.txt": "x", "common.txt": "new"}, []string{
			"sessions/s1/final/agent_a/answer.json", "sessions/s1/final/agent_a/workspace.json",
			"sessions/s1/final/agent_a/workspace/b=20c.txt", "sessions/s1/final/agent_a/workspace/common.txt",
		}},
		"the same winner without files": {"agent_a", nil, []string{"sessions/s1/final/agent_a/answer.json"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t)
			s.win("agent_a", 1, "One.", map[string]string{"a/b.txt": "1", "common.txt": "old"})
			require.Len(t, s.final(), 4)
			s.win(tt.winner, 2, "Two.", tt.files)
			require.Equal(t, tt.want, s.final())
			answer, err := artifact.ReadJSON[artifact.Answer](t.Context(), s.store, s.layout.Final(tt.winner, "answer.json"))
			require.NoError(t, err)
			require.Equal(t, "Two.", answer.Answer)
			require.Equal(t, 2, answer.Step, "its source")
		})
	}
}

func TestPresent_directoryReplacesAFile(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.win("agent_a", 1, "One.", map[string]string{"a": "1"})
	s.win("agent_a", 2, "Two.", map[string]string{"a/b.txt": "2"})
	require.Equal(t, []string{
		"sessions/s1/final/agent_a/answer.json", "sessions/s1/final/agent_a/workspace.json", "sessions/s1/final/agent_a/workspace/a/b.txt",
	}, s.final())
}

func TestPresent_canBeRepeated(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.win("agent_a", 1, "One.", map[string]string{"a/b.txt": "1"})
	before := s.final()
	_, err := s.ExecuteActivity("Present", PresentInput{Session: "s1", Decision: coordination.Decision{Winner: "agent_a", WinnerStep: 1, WinnerLabel: "agent1.1"}})
	require.NoError(t, err)
	require.Equal(t, before, s.final())
}

// A presented answer is final, with exactly the files of its commit.
func TestPresent_presentedAnswerIsFinal(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		presented map[string]string
		want      []string
	}{
		"with files": {map[string]string{"b c.txt": "x"}, []string{
			"sessions/s1/final/agent_b/answer.json", "sessions/s1/final/agent_b/workspace.json", "sessions/s1/final/agent_b/workspace/b=20c.txt",
		}},
		"without files": {nil, []string{"sessions/s1/final/agent_b/answer.json"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t)
			s.commit("agent_a", 1, "One.", map[string]string{"common.txt": "1"})
			s.commit("agent_b", 4, "All of it.", tt.presented)
			p := s.present(coordination.Decision{
				Winner: "agent_a", WinnerStep: 1, WinnerLabel: "agent1.1",
				Final: &coordination.Shown{Agent: "agent_b", Number: 2, Label: "agent2.final", Step: 4},
			})
			require.Equal(t, "All of it.", p.Answer)
			require.Contains(t, p.Path, "final/agent_b/answer.json")
			require.Equal(t, tt.want, s.final())
			answer, err := artifact.ReadJSON[artifact.Answer](t.Context(), s.store, s.layout.Final("agent_b", "answer.json"))
			require.NoError(t, err)
			require.Equal(t, "agent2.final", answer.Label)
			require.Equal(t, "agent_b", answer.AgentID)
		})
	}
}

// In decomposition the presenter's answer is the winner's.
func TestPresent_presenterIsTheWinner(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.commit("agent_b", 4, "All of it.", nil)
	p := s.present(coordination.Decision{
		Winner: "agent_b", WinnerStep: 4, WinnerLabel: "agent2.final",
		Final: &coordination.Shown{Agent: "agent_b", Number: 2, Label: "agent2.final", Step: 4},
	})
	require.Equal(t, "All of it.", p.Answer)
	require.Equal(t, []string{"sessions/s1/final/agent_b/answer.json"}, s.final())
}
