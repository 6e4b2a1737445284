package offline_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/activities/offline"
	"conclave/engine/eval"
	"conclave/engine/llm"
	"conclave/engine/loop"
)

// dataSet writes n questions with the answer 7, and returns them with the file.
func dataSet(t *testing.T, n int) ([]eval.Question, string) {
	t.Helper()
	var lines strings.Builder
	for i := range n {
		fmt.Fprintf(&lines, `{"id":"q%d","input":"Question %d?","target":"7"}`+"\n", i, i)
	}
	file := filepath.Join(t.TempDir(), "questions.jsonl")
	require.NoError(t, os.WriteFile(file, []byte(lines.String()), 0o600))
	questions, err := eval.ReadQuestions([]byte(lines.String()), "")
	require.NoError(t, err)
	return questions, file
}

func skilledModel(t *testing.T, agent, file string, skill, judging float64, seed int) loop.Model {
	t.Helper()
	m, err := offline.Skilled(agent, map[string]any{"skill": skill, "judging": judging, "seed": seed, "targets": file})
	require.NoError(t, err)
	return m
}

func TestSkilled_answersWithItsProbability(t *testing.T) {
	t.Parallel()
	questions, file := dataSet(t, 500)
	m, other := skilledModel(t, "agent_a", file, 0.6, 0, 1), skilledModel(t, "agent_b", file, 0.6, 0, 1)
	right, same := 0, 0
	for _, q := range questions {
		ask1 := func(m loop.Model) string {
			_, names, arguments := ask(t, m, prompt(q.Prompt()), newAnswer)
			require.Equal(t, []string{"new_answer"}, names)
			return arguments[0]["content"]
		}
		text := ask1(m)
		require.Equal(t, text, ask1(m), "the same step gets the same reply")
		_, correct := q.Score("", text)
		require.NotNil(t, correct)
		if *correct {
			right++
		}
		if _, theirs := q.Score("", ask1(other)); *theirs == *correct {
			same++
		}
	}
	require.InDelta(t, 300, right, 33, "three standard deviations of 500 answers at 0.6")
	require.InDelta(t, 260, same, 34, "agents err independently of each other")
}

func TestSkilled_votes(t *testing.T) {
	t.Parallel()
	questions, file := dataSet(t, 400)
	tools := []llm.Tool{newAnswer, vote("agent1", "agent2", "agent3")}
	shown := []string{"agent1.1", "ANSWER: 8", "agent2.1", "ANSWER: 8", "agent3.1", "ANSWER: 7"}
	count := func(judging float64, answers []string, more string) map[string]int {
		votes := map[string]int{}
		m := skilledModel(t, "agent_a", file, 0.5, judging, 3)
		for _, q := range questions {
			conversation := prompt(q.Prompt(), answers...)
			conversation[1].Content += more
			_, names, arguments := ask(t, m, conversation, tools...)
			require.Equal(t, []string{"vote"}, names)
			votes[arguments[0]["agent_id"]]++
		}
		return votes
	}
	require.Equal(t, 400, count(1, shown, "")["agent3"], "a perfect judge finds the right answer")
	require.InDelta(t, 400./3, count(0, shown, "")["agent3"], 29, "no judge guesses")
	require.InDelta(t, 400*(.5+.5/3), count(.5, shown, "")["agent3"], 29)

	equal := "\n# Equal answers\n\n- agent1.1, agent2.1: the same answer, given by 2 agents\n"
	require.Equal(t, 400, count(0, shown, equal)["agent1"], "without a judgement most agents are followed")
	require.Equal(t, 400, count(1, shown, equal)["agent3"])

	wrong := []string{"agent1.1", "ANSWER: 8", "agent2.1", "ANSWER: 9", "agent3.1", "ANSWER: 1"}
	require.InDelta(t, 400./3, count(1, wrong, "")["agent3"], 29, "nothing shown is right")
	first, again := count(0, shown, ""), count(0, shown, "\nno answer got a majority\n")
	require.NotEqual(t, first, again, "a revote is drawn anew")
}

func TestSkilled_presentsTheDecision(t *testing.T) {
	t.Parallel()
	questions, file := dataSet(t, 1)
	m := skilledModel(t, "agent_a", file, 0, 0, 1)
	conversation := prompt(questions[0].Prompt(), "agent1.1", "ANSWER: 8", "agent2.1", "two lines\nANSWER: 7")
	conversation[1].Content += "\n# The decision\n\nagent2.1 has 2 of 3 votes.\n"
	_, _, arguments := ask(t, m, conversation, newAnswer)
	require.Equal(t, "two lines\nANSWER: 7", arguments[0]["content"])
}

func TestSkilled_leavesTheRest(t *testing.T) {
	t.Parallel()
	questions, file := dataSet(t, 1)
	m := skilledModel(t, "agent_a", file, 1, 1, 1)
	_, names, _ := ask(t, m, prompt(questions[0].Prompt()), submit)
	require.Equal(t, []string{"submit"}, names)
	message, _, _ := ask(t, m, []llm.Message{{Role: llm.User, Content: questions[0].Prompt()}})
	require.Contains(t, message.Content, "\nANSWER: 7", "a bare completion has the answer as its text")

	_, err := m.Generate(context.Background(), llm.Request{Messages: prompt("Something else?"), Tools: []llm.Tool{newAnswer}})
	require.ErrorContains(t, err, "the question is not in params.targets")
}

// A question whose targets give no right or no wrong answer fails the call with its ID.
func TestSkilled_cannotAnswer(t *testing.T) {
	t.Parallel()
	for name, line := range map[string]string{
		"command":    `{"id":"x","input":"Write f.","target":"python3 test.py","scorer":"command"}`,
		"checks":     `{"id":"x","input":"Write f.","scorer":"checks","checks":[{"command":"true"}]}`,
		"graded":     `{"id":"x","input":"Why?","target":"because","scorer":"model_graded"}`,
		"pattern":    `{"id":"x","input":"Which?","target":"^\\d{3}$","scorer":"pattern"}`,
		"one choice": `{"id":"x","input":"Which?","target":"A","choices":["only"]}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			questions, err := eval.ReadQuestions([]byte(line), "")
			require.NoError(t, err)
			file := filepath.Join(t.TempDir(), "questions.jsonl")
			require.NoError(t, os.WriteFile(file, []byte(line), 0o600))
			_, err = skilledModel(t, "agent_a", file, 0.5, 0.5, 1).Generate(t.Context(), llm.Request{Messages: prompt(questions[0].Prompt()), Tools: []llm.Tool{newAnswer}})
			require.ErrorContains(t, err, "no right and wrong answer to it")
		})
	}
}

func TestSkilled_refuses(t *testing.T) {
	t.Parallel()
	_, file := dataSet(t, 1)
	_, err := offline.Skilled("agent_a", map[string]any{"targets": file + ".not"})
	require.ErrorContains(t, err, "read params.targets of agent agent_a")
	_, err = offline.Skilled("agent_a", map[string]any{"targets": file, "skill": "high"})
	require.ErrorContains(t, err, "read the params of agent agent_a")
	require.NoError(t, os.WriteFile(file, []byte("{}"), 0o600))
	_, err = offline.Skilled("agent_a", map[string]any{"targets": file})
	require.ErrorContains(t, err, "line 1: no input")
}

// A recorded agent answers first, and then votes as its file says.
func TestRecorded(t *testing.T) {
	t.Parallel()
	recording, err := eval.ReadRecording("x.tsv", []byte("question_id\tcategory\tanswer\toptions\ta\tb\n7\tm\tA\t4\tA\tB\n8\tm\tA\t4\t-\tB\n"))
	require.NoError(t, err)
	model := func(params map[string]any) loop.Model {
		m, err := offline.Recorded("agent_a", params, recording)
		require.NoError(t, err)
		return m
	}
	const a, b = "This answer is recorded; no language model was asked.\n\nANSWER: A", "This answer is recorded; no language model was asked.\n\nANSWER: B"
	own := model(map[string]any{"data": "x.tsv", "member": "a", "votes": "own"})
	q := recording.Questions[0]
	tools := []llm.Tool{newAnswer, vote("agent1", "agent2")}
	for _, conversation := range [][]llm.Message{prompt(q.Prompt()), prompt("7"), prompt(q.Prompt(), "agent2.1", b)} {
		_, names, arguments := ask(t, own, conversation, tools...)
		require.Equal(t, []string{"new_answer"}, names, "its answer comes first, whatever it is shown")
		require.Equal(t, a, arguments[0]["content"])
	}
	shown := prompt(q.Prompt(), "agent1.1", a, "agent2.1", b)
	shown[1].Content += "\n# Equal answers\n\n- agent2.1, agent3.1: the same answer, given by 2 agents\n"
	for want, params := range map[string]map[string]any{
		"agent1: The agent of recorded answers votes for its own answer.": {"member": "a", "votes": "own"},
		"agent2: The agent of recorded answers follows most agents.":      {"member": "a", "votes": "plurality"},
		"agent1: The agent of recorded answers recognizes it.":            {"member": "b", "votes": "own", "judging": 1},
	} {
		_, names, arguments := ask(t, model(params), shown, tools...)
		require.Equal(t, []string{"vote"}, names)
		require.Equal(t, want, arguments[0]["agent_id"]+": "+arguments[0]["reason"])
	}
	for want, query := range map[string]string{
		"no answer of a to the question 8 is recorded":                  "8",
		"the question is not in params.data of the recorded answers; a": "Something else?",
	} {
		_, err = own.Generate(t.Context(), llm.Request{Messages: prompt(query), Tools: tools})
		require.ErrorContains(t, err, want)
	}
	_, err = offline.Recorded("agent_a", map[string]any{"member": "c"}, recording)
	require.ErrorContains(t, err, `read params.member of agent agent_a: there are no recorded answers of "c"; the members are a, b`)
}
