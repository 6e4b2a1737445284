package offline_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"conclave/activities/offline"
	"conclave/engine/llm"
	"conclave/engine/loop"
)

var (
	newAnswer = llm.Tool{Name: "new_answer", Parameters: json.RawMessage(`{"type":"object","properties":{"content":{"type":"string"}}}`)}
	writeFile = llm.Tool{Name: "write_file", Parameters: json.RawMessage(`{}`)}
	listFiles = llm.Tool{Name: "list_files", Parameters: json.RawMessage(`{}`)}
	readFile  = llm.Tool{Name: "read_file", Parameters: json.RawMessage(`{}`)}
	stopCall  = llm.Tool{Name: "stop", Parameters: json.RawMessage(`{}`)}
	submit    = llm.Tool{Name: "submit", Parameters: json.RawMessage(`{}`)}
	restart   = llm.Tool{Name: "restart_orchestration", Parameters: json.RawMessage(`{}`)}
)

func vote(agents ...string) llm.Tool {
	enum, _ := json.Marshal(agents)
	return llm.Tool{Name: "vote", Parameters: json.RawMessage(`{"type":"object","properties":{"agent_id":{"type":"string","enum":` + string(enum) + `}}}`)}
}

// prompt shows answers, which alternate label and text.
func prompt(question string, answers ...string) []llm.Message {
	text := "# Task\n\n" + question
	if len(answers) > 0 {
		text += "\n\n# Current answers\n"
	}
	for i := 0; i < len(answers); i += 2 {
		text += fmt.Sprintf("\n=== f00d begin %[1]s ===\n%[2]s\n=== f00d end %[1]s ===\n", answers[i], answers[i+1])
	}
	return []llm.Message{{Role: llm.System, Content: "agent2.1 is the first answer of agent 2, agent2.2 its second"}, {Role: llm.User, Content: text}}
}

// ask returns the calls of a reply as name and arguments.
func ask(t *testing.T, m loop.Model, messages []llm.Message, tools ...llm.Tool) (llm.Message, []string, []map[string]string) {
	t.Helper()
	reply, err := m.Generate(t.Context(), llm.Request{Messages: messages, Tools: tools})
	require.NoError(t, err)
	var (
		names     []string
		arguments []map[string]string
	)
	for _, c := range reply.Message.ToolCalls {
		var a map[string]string
		require.NoError(t, json.Unmarshal([]byte(c.Arguments), &a))
		names = append(names, c.Name)
		arguments = append(arguments, a)
	}
	return reply.Message, names, arguments
}

// answerOf returns the first answer of a model.
func answerOf(t *testing.T, m loop.Model, question string) string {
	t.Helper()
	_, names, arguments := ask(t, m, prompt(question), newAnswer)
	require.Equal(t, []string{"new_answer"}, names)
	return arguments[0]["content"]
}

func TestModel_writesAFileAndAnswers(t *testing.T) {
	t.Parallel()
	m := offline.New("agent_a")
	conversation := prompt("Is a hot dog a sandwich?")

	message, names, files := ask(t, m, conversation, newAnswer, writeFile, listFiles)
	require.Equal(t, []string{"write_file"}, names)
	require.Equal(t, "answer.md", files[0]["path"])

	conversation = append(conversation, message, message.ToolCalls[0].Result("created answer.md"))
	_, names, arguments := ask(t, m, conversation, newAnswer, writeFile, listFiles)
	require.Equal(t, []string{"new_answer"}, names)
	answer := arguments[0]["content"]
	require.Equal(t, answer+"\n", files[0]["content"])
	require.Contains(t, answer, "Offline model")
	require.Contains(t, answer, "no language model was asked")
	require.Contains(t, answer, "The question was: Is a hot dog a sandwich?\n")
	require.NotContains(t, answer, "agent_a", "an answer names no agent")
}

func TestModel_differsBySeed(t *testing.T) {
	t.Parallel()
	seen := make(map[string]bool)
	for i := range 26 {
		seen[answerOf(t, offline.New(fmt.Sprintf("agent_%c", 'a'+i)), "why?")] = true
	}
	require.Len(t, seen, 26)
}

func TestModel_isDeterministic(t *testing.T) {
	t.Parallel()
	first := answerOf(t, offline.New("x"), "why?")
	require.Equal(t, first, answerOf(t, offline.New("x"), "why?"))
}

func TestModel_votes(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		agents  []string
		answers []string
		want    string
	}{
		"the most revised":            {[]string{"agent1", "agent2", "agent3"}, []string{"agent1.1", "x", "agent2.3", "y", "agent3.2", "z"}, "agent2"},
		"of equals the lowest number": {[]string{"agent2", "agent1"}, []string{"agent2.1", "x", "agent1.1", "y"}, "agent1"},
		"numbers, not words":          {[]string{"agent10", "agent2"}, []string{"agent10.1", "x", "agent2.1", "y"}, "agent2"},
		"only who can be voted for":   {[]string{"agent2", "agent3"}, []string{"agent1.5", "x", "agent2.1", "y", "agent3.1", "z"}, "agent2"},
		"labels cannot be read":       {[]string{"agent1", "agent2"}, nil, "agent1"},
		"the only one":                {[]string{"agent4"}, []string{"agent4.1", "x"}, "agent4"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, seed := range []string{"a", "b", "c"} {
				_, names, arguments := ask(t, offline.New(seed), prompt("q", tc.answers...), newAnswer, vote(tc.agents...))
				require.Equal(t, []string{"vote"}, names)
				require.Equal(t, tc.want, arguments[0]["agent_id"], "every agent chooses the same")
				require.Contains(t, arguments[0]["reason"], "offline model")
			}
		})
	}
}

func TestModel_readsFilesBeforeItVotes(t *testing.T) {
	t.Parallel()
	m := offline.New("a")
	conversation := prompt("q", "agent1.1", "x", "agent2.2", "y")
	tools := []llm.Tool{newAnswer, vote("agent1", "agent2"), writeFile, listFiles, readFile}

	message, names, arguments := ask(t, m, conversation, tools...)
	require.Equal(t, []string{"list_files", "read_file"}, names)
	require.Equal(t, "peers", arguments[0]["path"])
	require.Equal(t, "peers/agent2/answer.md", arguments[1]["path"])
	require.NotEqual(t, message.ToolCalls[0].ID, message.ToolCalls[1].ID)

	conversation = append(conversation, message, message.ToolCalls[0].Result("error: no"), message.ToolCalls[1].Result("error: no"))
	_, names, _ = ask(t, m, conversation, tools...)
	require.Equal(t, []string{"vote"}, names)
}

func TestModel_highestNumberAnswersASecondTime(t *testing.T) {
	t.Parallel()
	const question = "Which, agent1.1 or agent2.1?"
	a, b, c := offline.New("a"), offline.New("b"), offline.New("c")
	first := prompt(question, "agent1.1", answerOf(t, a, question), "agent2.1", answerOf(t, b, question), "agent3.1", answerOf(t, c, question))
	tools := []llm.Tool{newAnswer, vote("agent1", "agent2", "agent3")}

	for _, m := range []loop.Model{a, b} {
		_, names, _ := ask(t, m, first, tools...)
		require.Equal(t, []string{"vote"}, names)
	}
	message, names, arguments := ask(t, c, first, tools...)
	require.Equal(t, []string{"new_answer"}, names)
	second := arguments[0]["content"]
	require.NotEqual(t, answerOf(t, c, question), second)
	require.Contains(t, second, "Revision 2, written after a look at 3 answers.")

	refused := append(first, message, message.ToolCalls[0].Result("rejected"))
	_, names, _ = ask(t, c, refused, tools...)
	require.Equal(t, []string{"vote"}, names, "a refused second answer is not repeated")

	then := prompt(question, "agent1.1", answerOf(t, a, question), "agent2.1", answerOf(t, b, question), "agent3.2", second)
	for _, m := range []loop.Model{a, b, c} {
		_, names, arguments := ask(t, m, then, tools...)
		require.Equal(t, []string{"vote"}, names)
		require.Equal(t, "agent3", arguments[0]["agent_id"])
	}
}

func TestModel_votesImmediatelyInATeamOfTwo(t *testing.T) {
	t.Parallel()
	a, b := offline.New("a"), offline.New("b")
	shown := prompt("q", "agent1.1", answerOf(t, a, "q"), "agent2.1", answerOf(t, b, "q"))
	for _, m := range []loop.Model{a, b} {
		_, names, _ := ask(t, m, shown, newAnswer, vote("agent1", "agent2"))
		require.Equal(t, []string{"vote"}, names)
	}
}

func TestModel_repeatsARefusedAnswerInOtherWords(t *testing.T) {
	t.Parallel()
	m := offline.New("a")
	conversation := prompt("q")
	seen := make(map[string]bool)
	for range 3 {
		message, names, arguments := ask(t, m, conversation, newAnswer)
		require.Equal(t, []string{"new_answer"}, names)
		seen[arguments[0]["content"]] = true
		conversation = append(conversation, message, message.ToolCalls[0].Result("too similar"))
	}
	require.Len(t, seen, 3)
}

func TestModel_shortensALongQuestion(t *testing.T) {
	t.Parallel()
	require.Less(t, len(answerOf(t, offline.New("a"), strings.Repeat("wörd ", 5000))), 1000)
}

func TestModel_countsUsageAtNoCost(t *testing.T) {
	t.Parallel()
	reply, err := offline.New("a").Generate(t.Context(), llm.Request{
		Messages: []llm.Message{{Role: llm.User, Content: strings.Repeat("x", 400)}},
	})
	require.NoError(t, err)
	require.Equal(t, int64(100), reply.Usage.InputTokens)
	require.Positive(t, reply.Usage.OutputTokens)
	require.Equal(t, int64(1), reply.Usage.ModelCalls)
	require.NotNil(t, reply.Usage.TotalUSD)
	require.Zero(t, *reply.Usage.TotalUSD)
}

func TestModel_endedContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := offline.New("a").Generate(ctx, llm.Request{})
	require.ErrorIs(t, err, context.Canceled)
}

// The conversation ends for any tools and any text: the model calls at most two ordinary tools before it
// ends its step or replies with text only.
func TestModel_endsWithAnyTools(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		offers := []llm.Tool{
			newAnswer, writeFile, listFiles, readFile,
			vote(), vote("agent1"), vote("agent2", "agent1", "agent3"), vote("nobody", ""),
			{Name: "vote", Parameters: json.RawMessage(`{"properties":7}`)},
			stopCall, submit, restart,
			{Name: "mcp__a__b"},
		}
		tools := rapid.SliceOfDistinct(rapid.SampledFrom(offers), func(l llm.Tool) string { return l.Name }).Draw(t, "tools")
		text := rapid.SampledFrom([]string{"", "#", "# T\n", "agent1.1 agent2.1 agent3.1", "agent99999999999999999999.1", "why?"})
		conversation := []llm.Message{{Role: llm.User, Content: text.Draw(t, "prompt")}}
		m := offline.New(text.Draw(t, "seed"))
		for range 3 {
			reply, err := m.Generate(context.Background(), llm.Request{Messages: conversation, Tools: tools})
			if err != nil {
				t.Fatal(err)
			}
			if len(reply.Message.ToolCalls) == 0 {
				if reply.Message.Content == "" {
					t.Fatal("an empty reply")
				}
				return
			}
			conversation = append(conversation, reply.Message)
			for _, c := range reply.Message.ToolCalls {
				if slices.Contains([]string{"new_answer", "vote", "stop", "submit"}, c.Name) {
					return
				}
				conversation = append(conversation, c.Result(text.Draw(t, "result")))
			}
		}
		t.Fatal("the conversation does not end")
	})
}
