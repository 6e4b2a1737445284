package session

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/stretchr/testify/require"

	"conclave/engine/coordination"
	"conclave/engine/llm"
	"conclave/engine/loop"
)

func reply(calls ...llm.ToolCall) llm.Message {
	for i := range calls {
		calls[i].ID = string(rune('a' + i))
	}
	return llm.Message{Role: llm.Assistant, Content: "Here I go.", ToolCalls: calls}
}

func call(name, arguments string) llm.ToolCall { return llm.ToolCall{Name: name, Arguments: arguments} }

func vote(id string) llm.ToolCall {
	return call("vote", `{"agent_id": "`+id+`", "reason": "It is right."}`)
}

func callAnswer(content string) llm.ToolCall { return call("new_answer", `{"content": "`+content+`"}`) }

func TestJudge_accepts(t *testing.T) {
	t.Parallel()
	votes := func(label string, number int) string {
		raw, err := json.Marshal(ballot{Number: number, Label: label, Reason: "It is right."})
		require.NoError(t, err)
		return string(raw)
	}
	for name, c := range map[string]struct {
		reply   llm.Message
		kind    string
		payload string
		want    []string // by call; empty for an ordinary one
	}{
		"a new answer":                    {reply(callAnswer("Two.")), "new_answer", `{"content":"Two."}`, []string{"Your answer is submitted."}},
		"an answer keeps its white space": {reply(callAnswer(` a\n`)), "new_answer", `{"content":" a\n"}`, []string{"Your answer is submitted."}},
		"more arguments than asked for":   {reply(call("new_answer", `{"content": "Two.", "confidence": 3}`)), "new_answer", `{"content":"Two."}`, []string{"Your answer is submitted."}},
		"a vote for an agent":             {reply(vote("agent3")), "vote", votes("agent3.1", 3), []string{"Your vote for agent3.1 is recorded."}},
		"a vote for the revision shown":   {reply(vote("agent1.2")), "vote", votes("agent1.2", 1), []string{"Your vote for agent1.2 is recorded."}},
		"a vote written carelessly":       {reply(vote(" Agent3 ")), "vote", votes("agent3.1", 3), []string{"Your vote for agent3.1 is recorded."}},
		"a vote by a label's numbers":     {reply(vote("1.2")), "vote", votes("agent1.2", 1), []string{"Your vote for agent1.2 is recorded."}},
		"the same, not as a text":         {reply(call("vote", `{"agent_id": 3.1, "reason": "It is right."}`)), "vote", votes("agent3.1", 3), []string{"Your vote for agent3.1 is recorded."}},
		"a vote by number":                {reply(call("vote", `{"agent_id": 1, "reason": "It is right."}`)), "vote", votes("agent1.2", 1), []string{"Your vote for agent1.2 is recorded."}},
		"a number that is no position":    {reply(vote("3")), "vote", votes("agent3.1", 3), []string{"Your vote for agent3.1 is recorded."}},
		"a vote with a line end":          {reply(vote(`\n agent3.1 \n`)), "vote", votes("agent3.1", 3), []string{"Your vote for agent3.1 is recorded."}},
		"a label in two words":            {reply(vote("Agent 3.1")), "vote", votes("agent3.1", 3), []string{"Your vote for agent3.1 is recorded."}},
		"an answer that is a word":        {reply(callAnswer("stop")), "new_answer", `{"content":"stop"}`, []string{"Your answer is submitted."}},
		"ordinary tools beside an action": {
			reply(call("write_file", "{}"), callAnswer("Two."), call("read_file", "")),
			"new_answer", `{"content":"Two."}`,
			[]string{"", "Your answer is submitted.", ""},
		},
		"the same answer twice": {
			reply(callAnswer("Two."), callAnswer(" Two. ")), "new_answer", `{"content":"Two."}`,
			[]string{"Your answer is submitted.", "The same as the accepted call; counted once."},
		},
		"votes that agree": {
			reply(vote("agent3"), call("vote", `{"agent_id": "agent3.1", "reason": "Another."}`)), "vote", votes("agent3.1", 3),
			[]string{"Your vote for agent3.1 is recorded.", "The same as the accepted call; counted once."},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := newRules(evaluation()).Judge(c.reply)
			require.Empty(t, v.Rejected)
			require.NotNil(t, v.Action)
			require.Equal(t, c.kind, v.Action.Kind)
			require.JSONEq(t, c.payload, string(v.Action.Payload))
			for i, call := range c.reply.ToolCalls {
				require.Equal(t, c.want[i], v.Results[call.ID])
			}
		})
	}
}

// After a call to a closed tool, only open tools are offered.
func TestOffer_afterAClosedTool(t *testing.T) {
	t.Parallel()
	task := with(evaluation(), func(t *task) { t.Offered = []coordination.Action{coordination.Vote} })
	p := play(t, t.Context(), task, does(callAnswer("Two.")), does(vote("agent1")))
	require.NoError(t, p.err)
	require.Equal(t, []string{"new_answer", "vote"}, p.offered(0), "all agents are offered the same")
	require.Equal(t, []string{"vote"}, p.offered(1))
	p.requireRestores(t, task)
}

func TestJudge_rejects(t *testing.T) {
	t.Parallel()
	voteOnly := func(t *task) { t.Offered = []coordination.Action{"vote"} }
	for name, c := range map[string]struct {
		change func(*task)
		reply  llm.Message
		reason string
		want   string
	}{
		"plain text":                  {nil, reply(), noToolCalls, "Your reply had no tool call."},
		"no text either":              {nil, llm.Message{Role: llm.Assistant}, noToolCalls, "Finish by calling new_answer or vote."},
		"plain text at first":         {first, reply(), noToolCalls, "Finish by calling new_answer."},
		"plain text when voting":      {voteOnly, reply(), noToolCalls, "Finish by calling vote."},
		"an unknown tool":             {nil, reply(call("web_search", "{}")), unknownTool, `There is no tool "web_search". The tools are new_answer, vote, read_file, write_file.`},
		"an unknown tool at first":    {first, reply(call("web_search", "{}")), unknownTool, "The tools are new_answer, read_file, write_file."},
		"an unknown tool and a vote":  {nil, reply(vote("agent1"), call("stop", "{}")), unknownTool, `There is no tool "stop".`},
		"a tool without a name":       {nil, reply(call("", "")), unknownTool, `There is no tool "".`},
		"a vote without answers":      {first, reply(vote("agent1")), voteNoAnswers, "There is no answer to vote for yet."},
		"a vote that is not open":     {func(t *task) { t.Offered = []coordination.Action{"new_answer"} }, reply(vote("agent1")), toolNotOffered, "Voting is not open to you"},
		"an answer that is not open":  {voteOnly, reply(callAnswer("Two.")), toolNotOffered, "New answers are not open to you"},
		"a vote and an answer":        {nil, reply(vote("agent1"), callAnswer("Two.")), voteAndAnswer, "You called both"},
		"a tool, a vote, an answer":   {nil, reply(call("read_file", "{}"), vote("agent1"), callAnswer("Two.")), voteAndAnswer, "no tool was run"},
		"answers that differ":         {nil, reply(callAnswer("Two."), callAnswer("Three.")), severalActions, "You called new_answer several times"},
		"votes that differ":           {nil, reply(vote("agent1"), vote("agent3")), severalActions, "You called vote several times"},
		"one bad vote of two":         {nil, reply(vote("agent1"), vote("agent2")), invalidVoteID, "The agent_id names no answer that you were shown"},
		"an agent without an answer":  {nil, reply(vote("agent2")), invalidVoteID, "It can be agent1, agent3."},
		"an agent's real id":          {nil, reply(vote("agent_a")), invalidVoteID, "It can be agent1, agent3."},
		"not a revision":              {nil, reply(vote("agent1.final")), invalidVoteID, "It can be agent1, agent3."},
		"a revision not shown":        {nil, reply(vote("agent3.2")), invalidVoteID, "It can be agent1, agent3."},
		"a revision far off":          {nil, reply(vote("agent1.99")), invalidVoteID, "The agent_id names no answer that you were shown"},
		"revision nought":             {nil, reply(vote("agent1.0")), invalidVoteID, "It can be agent1, agent3."},
		"an endless revision":         {nil, reply(vote("agent1.1.1")), invalidVoteID, "It can be agent1, agent3."},
		"a number with zeros":         {nil, reply(vote("agent01")), invalidVoteID, "It can be agent1, agent3."},
		"a vote for nobody":           {nil, reply(vote(" ")), invalidArguments, "vote takes {"},
		"a vote without a reason":     {nil, reply(call("vote", `{"agent_id": "agent1"}`)), invalidArguments, "vote takes {"},
		"a vote with a blank reason":  {nil, reply(call("vote", `{"agent_id": "agent1", "reason": ""}`)), invalidArguments, "vote takes {"},
		"a vote by a list":            {nil, reply(call("vote", `{"agent_id": [1], "reason": "r"}`)), invalidVoteID, "It can be agent1, agent3."},
		"an example for an answer":    {nil, reply(callAnswer(" Your complete answer.")), invalidArguments, "no answer"},
		"a tool's name for an answer": {nil, reply(callAnswer("`new_answer`")), invalidArguments, "no answer"},
		"a position without a label":  {nil, reply(vote("2")), invalidVoteID, "It can be agent1, agent3."},
		"a number that was not shown": {nil, reply(vote("2.1")), invalidVoteID, "It can be agent1, agent3."},
		"a newer revision by number":  {nil, reply(vote("3.2")), invalidVoteID, "It can be agent1, agent3."},
		"a number of another kind":    {nil, reply(call("vote", `{"agent_id": 3.10, "reason": "r"}`)), invalidVoteID, "It can be agent1, agent3."},
		"arguments that are a list":   {nil, reply(call("new_answer", `["Two."]`)), invalidArguments, "new_answer takes {"},
		"arguments that are not JSON": {nil, reply(call("new_answer", `Two.`)), invalidArguments, "new_answer takes {"},
		"arguments with more text":    {nil, reply(call("new_answer", `{"content": "a"} {"content": "b"}`)), invalidArguments, "new_answer takes {"},
		"no arguments":                {nil, reply(call("new_answer", ``)), invalidArguments, "new_answer takes {"},
		"null for arguments":          {nil, reply(call("new_answer", `null`)), invalidArguments, "new_answer takes {"},
		"null for content":            {nil, reply(call("new_answer", `{"content": null}`)), invalidArguments, "new_answer takes {"},
		"an object for content":       {nil, reply(call("new_answer", `{"content": {"text": "a"}}`)), invalidArguments, "new_answer takes {"},
		"empty content":               {nil, reply(callAnswer("")), invalidArguments, "new_answer takes {"},
		"a replaced revision":         {nil, reply(vote("agent1.1")), voteReplaced, "agent1.1 was replaced by agent1.2, and a vote counts for the newer one. Vote for agent1 if it deserves it, or submit an answer of your own with new_answer."},
		"content without a width":     {nil, reply(callAnswer("\u200b\u200b\u2060\ufeff\u3164")), invalidArguments, "The content has only white space, control characters or marks without a width, so nobody can see it."},
		"control characters alone":    {nil, reply(callAnswer(`\u0001\u001b`)), invalidArguments, "The content has only white space, control characters"},
		"blank content":               {nil, reply(callAnswer(` \n\t`)), invalidArguments, "The content has only white space, control characters"},
		"content too large":           {nil, reply(callAnswer(strings.Repeat("x", maxAnswer+1))), answerTooLarge, "The content has 262145 bytes; at most 262144 are allowed. Shorten it."},
		"too large, with files":       {files, reply(callAnswer(strings.Repeat("x", maxAnswer+1))), answerTooLarge, "put the bulk into files"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			task := evaluation()
			if c.change != nil {
				c.change(&task)
			}
			v := newRules(task).Judge(c.reply)
			require.Nil(t, v.Action)
			require.Equal(t, c.reason, v.Rejected)
			require.Contains(t, v.Say, c.want)
			require.Contains(t, v.Say, "Nothing was submitted and no tool was run. Finish by calling ")
			require.Len(t, v.Results, len(c.reply.ToolCalls), "a rejected reply is refused whole")
			for _, call := range c.reply.ToolCalls {
				require.Equal(t, v.Say, v.Results[call.ID])
			}
		})
	}
}

// Steps in which there is no vote.
func TestJudge_otherSteps(t *testing.T) {
	t.Parallel()
	stop := func(arguments string) llm.Message { return reply(call("stop", arguments)) }
	again := func(arguments string) llm.Message { return reply(call("restart_orchestration", arguments)) }
	const done = `{"summary": "Done.", "status": "complete"}`
	for name, c := range map[string]struct {
		change  func(*task)
		reply   llm.Message
		reason  string
		payload string
	}{
		// Seed 001: "stop = terminal submission in decomposition mode".
		"a stop":                   {divided, stop(done), "", `{"status":"complete","summary":"Done."}`},
		"blocked":                  {divided, stop(`{"summary": "No source.", "status": "blocked"}`), "", `{"status":"blocked","summary":"No source."}`},
		"stops that agree":         {divided, reply(call("stop", done), call("stop", `{"summary": "All done.", "status": "complete"}`)), "", `{"status":"complete","summary":"Done."}`},
		"stops that differ":        {divided, reply(call("stop", done), call("stop", `{"summary": "No.", "status": "blocked"}`)), severalActions, ""},
		"a stop of another status": {divided, stop(`{"summary": "Done.", "status": "done"}`), invalidArguments, ""},
		"a stop without a status":  {divided, stop(`{"summary": "Done."}`), invalidArguments, ""},
		"a stop without a summary": {divided, stop(`{"status": "complete"}`), invalidArguments, ""},
		"a stop that says nothing": {divided, stop(`{"summary": " ", "status": "complete"}`), invalidArguments, ""},
		"a stop that is no JSON":   {divided, stop(`done`), invalidArguments, ""},
		// Seed 001: "iterate branch: submit new_answer; terminal branch: submit
		// vote (or stop in decomposition mode)", never both.
		"a stop and an answer":   {divided, reply(call("stop", done), callAnswer("Two.")), severalActions, ""},
		"a part":                 {divided, reply(callAnswer("Two.")), "", `{"content":"Two."}`},
		"a vote on divided work": {divided, reply(vote("agent1")), unknownTool, ""},
		"a stop not open":        {func(t *task) { divided(t); t.Offered = []coordination.Action{coordination.NewAnswer} }, stop(done), toolNotOffered, ""},
		"an answer not open":     {func(t *task) { divided(t); t.Offered = []coordination.Action{coordination.Stop} }, reply(callAnswer("Two.")), toolNotOffered, ""},
		"a stop where all vote":  {func(*task) {}, stop(done), unknownTool, ""},

		// Seed 001: the "presenter runs with final-presentation instructions and
		// new_answer-only workflow tool".
		"a final answer":      {presenting, reply(callAnswer("Two.")), "", `{"content":"Two."}`},
		"a presenter's vote":  {presenting, reply(vote("agent1")), unknownTool, ""},
		"a presenter's words": {presenting, reply(), noToolCalls, ""},

		// Seed 001: "post-evaluation and restart attempts".
		"submit":                {evaluating, reply(call("submit", "{}")), "", `{}`},
		"submit, confirmed":     {evaluating, reply(call("submit", `{"confirmed": true}`)), "", `{}`},
		"submit, with nothing":  {evaluating, reply(call("submit", "")), "", `{}`},
		"submit, a list":        {evaluating, reply(call("submit", "[]")), invalidArguments, ""},
		"begin again":           {evaluating, again(`{"reason": "One.", "instructions": "Count."}`), "", `{"reason":"One.","instructions":"Count."}`},
		"again, not why":        {evaluating, again(`{"instructions": "Count."}`), invalidArguments, ""},
		"again, not how":        {evaluating, again(`{"reason": "One.", "instructions": " "}`), invalidArguments, ""},
		"again, two ways":       {evaluating, reply(call("restart_orchestration", `{"reason": "a", "instructions": "b"}`), call("restart_orchestration", `{"reason": "a", "instructions": "c"}`)), severalActions, ""},
		"both":                  {evaluating, reply(call("submit", "{}"), call("restart_orchestration", `{"reason": "a", "instructions": "b"}`)), severalActions, ""},
		"an evaluator's answer": {evaluating, reply(callAnswer("Two.")), unknownTool, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := newRules(with(evaluation(), c.change)).Judge(c.reply)
			require.Equal(t, c.reason, v.Rejected)
			if c.reason != "" {
				require.Nil(t, v.Action)
				require.Len(t, v.Results, len(c.reply.ToolCalls))
				return
			}
			require.NotNil(t, v.Action)
			require.Equal(t, c.reply.ToolCalls[0].Name, v.Action.Kind)
			require.JSONEq(t, c.payload, string(v.Action.Payload))
			require.NotEmpty(t, v.Withdrawn)
		})
	}
}

func TestJudge_ordinaryTools(t *testing.T) {
	t.Parallel()
	v := newRules(evaluation()).Judge(reply(call("read_file", "{}"), call("write_file", "not JSON")))
	require.Nil(t, v.Action)
	require.Empty(t, v.Rejected)
	require.Empty(t, v.Results)
}

// The tools of MCP servers may change while a step runs. Unknown names are rejected unless they
// begin with mcp__.
func TestJudge_serverTools(t *testing.T) {
	t.Parallel()
	rules := newRules(with(evaluation(), func(t *task) { t.Tools = []string{"run_command", "mcp__browser__open"} }))
	for _, name := range []string{"run_command", "mcp__browser__open", "mcp__browser__new_since_then", "mcp__"} {
		v := rules.Judge(reply(call(name, "{}")))
		require.Empty(t, v.Rejected, name)
		require.Nil(t, v.Action, name)
		require.Empty(t, v.Results, "%s is the loop's to run", name)
	}
	for _, name := range []string{"read_file", "mcp_browser", "browser__open", "MCP__browser__open"} {
		v := rules.Judge(reply(call(name, "{}")))
		require.Equal(t, unknownTool, v.Rejected, name)
		require.Contains(t, v.Results["a"], "run_command, mcp__browser__open", name)
	}
	v := rules.Judge(reply(call("mcp__browser__open", "{}"), callAnswer("Two.")))
	require.NotNil(t, v.Action, "beside an answer they are run")
	require.Len(t, v.Results, 1)
}

// The largest allowed content is accepted, and a long reason is truncated.
func TestJudge_bounds(t *testing.T) {
	t.Parallel()
	rules := newRules(evaluation())
	require.NotNil(t, rules.Judge(reply(callAnswer(strings.Repeat("x", maxAnswer)))).Action)

	v := rules.Judge(reply(call("vote", arguments(t, "agent_id", "agent1", "reason", "x"+strings.Repeat("é", maxReason)))))
	var cast ballot
	require.NoError(t, json.Unmarshal(v.Action.Payload, &cast))
	require.Equal(t, "x"+strings.Repeat("é", maxReason/2-1), cast.Reason)
}

// The offered schemas accept exactly the arguments that Judge accepts.
func TestOffer_schemas(t *testing.T) {
	t.Parallel()
	schemas := map[string]*jsonschema.Resolved{}
	for _, tool := range newRules(evaluation()).Offer() {
		var s jsonschema.Schema
		require.NoError(t, json.Unmarshal(tool.Parameters, &s))
		resolved, err := s.Resolve(nil)
		require.NoError(t, err)
		schemas[tool.Name] = resolved
	}
	require.Len(t, schemas, 2)
	valid := func(c llm.ToolCall) error {
		var arguments any
		require.NoError(t, json.Unmarshal([]byte(c.Arguments), &arguments))
		return schemas[c.Name].Validate(arguments)
	}
	require.NoError(t, valid(callAnswer("Two.")))
	require.NoError(t, valid(vote("agent1")))
	require.NoError(t, valid(vote("agent3")))
	require.Error(t, valid(vote("agent2")), "agent2 has no answer")
	require.Error(t, valid(call("vote", `{"agent_id": "agent1"}`)))
	require.Error(t, valid(call("new_answer", `{}`)))
	require.Error(t, valid(call("new_answer", `{"content": "a", "more": 1}`)))
}

// A vote for a replaced revision is refused once; after that it records the revision
// that the model named (coordination, rule 7).
func TestJudge_replacedRevision(t *testing.T) {
	t.Parallel()
	r := newRules(evaluation())
	refused := r.Judge(reply(vote("agent1.1")))
	require.Equal(t, voteReplaced, refused.Rejected)
	require.NoError(t, r.Learn(t.Context(), loop.Entry{Kind: loop.Rejection, Reason: refused.Rejected, Note: refused.Note}))
	require.NoError(t, r.Learn(t.Context(), loop.Entry{Kind: loop.Results}))
	again := reply(vote("agent1.1"))
	accepted := r.Judge(again)
	require.Empty(t, accepted.Rejected)
	require.Equal(t, "Your vote for agent1.1 is recorded, and counts for agent1.2.", accepted.Results[again.ToolCalls[0].ID])
	require.JSONEq(t, `{"number":1,"label":"agent1.1","reason":"It is right."}`, string(accepted.Action.Payload))

	r.memory.answers[0].Label = "agent1.3"
	require.Equal(t, voteReplaced, r.Judge(reply(vote("agent1.2"))).Rejected, "another one that was replaced since")
}
