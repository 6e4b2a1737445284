package session

import (
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/engine/coordination"
	"conclave/engine/llm"
	"conclave/engine/loop"
)

func says(content string) turn { return turn{says: content} }

// The issue: "Where new_answer is the only action open, a model that called nothing after one
// rejection is asked for plain text, and its text is the answer".
func TestTextAnswer(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		mode    string
		change  func(*task)
		turns   []turn
		reasons []string // of rejections
		payload string   // empty without an action
	}{
		"asked for":            {textWhenAsked, first, []turn{says("Well."), says("Two.")}, []string{noToolCalls}, `{"content": "Two."}`},
		"unasked":              {textAlways, first, []turn{says("Two.")}, nil, `{"content": "Two."}`},
		"never":                {"never", first, []turn{says("a"), says("b"), says("c")}, []string{noToolCalls, noToolCalls, noToolCalls}, ""},
		"without its thoughts": {textAlways, first, []turn{says("<think>One?</think>\nTwo.")}, nil, `{"content": "Two."}`},
		"nothing to read":      {textWhenAsked, first, []turn{says(""), says(" \n"), says("Two.")}, []string{noToolCalls, noToolCalls}, `{"content": "Two."}`},
		"half a call":          {textWhenAsked, first, []turn{says("Well."), says(`{"name": "new_answer", "arguments": {"content": "Tw`), says("Two.")}, []string{noToolCalls, noToolCalls}, `{"content": "Two."}`},
		"a call between":       {textWhenAsked, first, []turn{says("Well."), does(call("read_file", "{}")), says("Now I know."), says("Two.")}, []string{noToolCalls, noToolCalls}, `{"content": "Two."}`},
		"a vote is open, too":  {textWhenAsked, func(*task) {}, []turn{says("Well."), says("Two."), says("Two!")}, []string{noToolCalls, noToolCalls, noToolCalls}, ""},
		"a tool's name":        {textWhenAsked, first, []turn{says("Well."), says("`new_answer`"), says("Two.")}, []string{noToolCalls, noToolCalls}, `{"content": "Two."}`},
		"a tool to be called":  {textAlways, first, []turn{says("I will call read_file."), says("new_answer()"), says("Two.")}, []string{noToolCalls, noToolCalls}, `{"content": "Two."}`},
		"another step's tool":  {textAlways, first, []turn{says("stop"), says("[vote]"), says("Two.")}, []string{noToolCalls, noToolCalls}, `{"content": "Two."}`},
		"a plain step":         {textAlways, func(t *task) { plain(t); first(t) }, []turn{says("call new_answer."), says("\"vote\""), says("Two.")}, []string{noToolCalls, noToolCalls}, `{"content": "Two."}`},
		"the words of a hint":  {textAlways, first, []turn{says("Your complete answer."), says("Two.")}, []string{invalidArguments}, `{"content": "Two."}`},
		"a tool in a sentence": {textAlways, first, []turn{says("Stop reading, call a vote.")}, nil, `{"content": "Stop reading, call a vote."}`},
		"curly half of a call": {textAlways, first, []turn{says(`{“name”: “new_answer”, “arguments”: {“content”: “Tw`), says("Two.")}, []string{noToolCalls}, `{"content": "Two."}`},
		"a presenter":          {textWhenAsked, presenting, []turn{says("Well."), says("Two.")}, []string{noToolCalls}, `{"content": "Two."}`},
		"the same again":       {textAlways, func(t *task) { t.Offered = t.Offered[:1] }, []turn{says("Mars has two moons."), says("Two.")}, []string{answerDuplicate}, `{"content": "Two."}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			task := with(evaluation(), c.change)
			task.TextAnswers = c.mode
			p := play(t, t.Context(), task, c.turns...)
			var rejected []string
			for _, e := range p.entries {
				if e.Kind == loop.Rejection {
					rejected = append(rejected, e.Reason)
				}
			}
			require.Equal(t, c.reasons, rejected)
			if c.payload == "" {
				var none *loop.NoActionError
				require.ErrorAs(t, p.err, &none)
				return
			}
			require.NoError(t, p.err)
			require.Equal(t, "new_answer", p.action.Kind)
			require.JSONEq(t, c.payload, string(p.action.Payload))
			p.requireRestores(t, task)
		})
	}
}

// "a vote may be given as text naming one offered label and nothing else".
func TestTextVote(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		content, label string
	}{
		"an agent":               {"agent3", "agent3.1"},
		"a label":                {" **agent1.2**.\n", "agent1.2"},
		"in capitals":            {"Agent3", "agent3.1"},
		"with a thought":         {"<think>It is right.</think>agent3", "agent3.1"},
		"with a heading":         {"LABEL: agent3", "agent3.1"},
		"in bold":                {"**My vote:** agent1.2.", "agent1.2"},
		"heading of an argument": {"Answer: not agent3", ""},
		"with a word":            {"I vote for agent3", ""},
		"two labels":             {"agent1 agent3", ""},
		"one without answer":     {"agent2", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			task := evaluation()
			task.TextAnswers = textWhenAsked
			v := newRules(task).Judge(llm.Message{Content: c.content})
			if c.label == "" {
				require.Equal(t, noToolCalls, v.Rejected)
				require.Contains(t, v.Say, "If you cannot call tools, reply with the label that you vote for and nothing else. The labels are: agent1, agent3.")
				return
			}
			require.Equal(t, "vote", v.Action.Kind)
			require.Contains(t, string(v.Action.Payload), `"label":"`+c.label+`"`)
		})
	}
	task := evaluation()
	require.Equal(t, noToolCalls, newRules(task).Judge(llm.Message{Content: "agent3"}).Rejected, "never")
	task.TextAnswers, task.Offered = textWhenAsked, []coordination.Action{coordination.NewAnswer}
	require.Equal(t, noToolCalls, newRules(task).Judge(llm.Message{Content: "agent3"}).Rejected, "voting is not open")
}

// With text_answers always, an agent without tools is offered none where only an answer or only
// a vote is open, and its vote may stand in a sentence.
func TestPlainStep(t *testing.T) {
	t.Parallel()
	voting := func(t *task) { plain(t); t.Offered = []coordination.Action{coordination.Vote} }
	for name, c := range map[string]struct {
		change func(*task)
		plain  bool
	}{
		"an answer":             {func(t *task) { plain(t); first(t) }, true},
		"a first turn":          {func(t *task) { plain(t); t.Answers = nil }, true},
		"a vote":                {voting, true},
		"either":                {plain, false},
		"with files":            {func(t *task) { voting(t); t.Tools = []string{"read_file"} }, false},
		"with a confidence":     {func(t *task) { voting(t); t.Confidence = true }, false},
		"with a checklist":      {func(t *task) { plain(t); gated(t); t.Offered = t.Offered[:1] }, false},
		"divided work":          {func(t *task) { plain(t); divided(t) }, false},
		"a final answer":        {func(t *task) { plain(t); presenting(t) }, false},
		"only where asked":      {func(t *task) { voting(t); t.TextAnswers = textWhenAsked }, false},
		"an answer, not a vote": {func(t *task) { plain(t); t.Offered = t.Offered[:1] }, true},
	} {
		rules := newRules(with(evaluation(), c.change))
		require.Equal(t, c.plain, len(rules.Offer()) == 0, name)
	}

	rules := newRules(with(evaluation(), voting))
	for content, label := range map[string]string{
		"The vote is agent1.":                   "agent1.2",
		"agent3, since Agent3.1 counts right":   "agent3.1",
		"agent1 or agent3":                      "",
		"agent1: wrong. Vote for agent2, then.": "",
		"Mars has two moons.":                   "",
	} {
		v := rules.Judge(llm.Message{Content: content})
		if label == "" {
			require.Equal(t, "Your reply cannot be read. Nothing was submitted. Reply with the label that you vote for and nothing else. The labels are: agent1, agent3.", v.Say, content)
			continue
		}
		require.NotNil(t, v.Action, content)
		require.Contains(t, string(v.Action.Payload), `"label":"`+label+`"`, content)
	}
	require.Contains(t, newRules(with(evaluation(), func(t *task) { plain(t); first(t) })).Judge(llm.Message{}).Say,
		"Reply with your complete answer as plain text")
	require.Equal(t, `There is no tool "search". You have no tools. Nothing was submitted. Reply with the label that you vote for and nothing else. The labels are: agent1, agent3.`,
		rules.Judge(reply(call("search", "{}"))).Say)

	p := play(t, t.Context(), with(evaluation(), voting), says("Two."), says("Two."), says("Two."))
	var none *loop.NoActionError
	require.ErrorAs(t, p.err, &none)
	require.False(t, none.Silent, "it was offered no tool")
}

// News that opens a vote brings the tools back, and the text no longer counts.
func TestPlainStep_news(t *testing.T) {
	t.Parallel()
	w := &world{}
	task := atWork(w, func(t *task) {
		plain(t)
		t.Answers = nil
		t.Updates = coordination.Updates{Mode: coordination.Inject, Most: 1}
	})
	p := play(t, t.Context(), task,
		turn{says: "Two.", while: func() { w.answer(2, 1, "Mars has two moons.") }}, says("2."), does(call("vote", `{"agent_id": "agent2", "reason": "It is complete."}`)))
	require.NoError(t, p.err)
	require.Equal(t, "vote", p.action.Kind)
}

// News withdraws an answer given as text like any other answer.
func TestTextAnswer_withdrawn(t *testing.T) {
	t.Parallel()
	w := &world{}
	task := atWork(w, first)
	task.TextAnswers = textAlways
	p := play(t, t.Context(), task,
		turn{says: "Two.", while: func() { w.say(1, "Be brief.") }}, says("2."))
	require.NoError(t, p.err)
	require.Len(t, p.updates(), 1)
	require.JSONEq(t, `{"content": "2."}`, string(p.action.Payload))
}

// A hint that opens plain text names the answer, not the tool, whose name weak models repeat.
func TestTextAnswer_hint(t *testing.T) {
	t.Parallel()
	task := with(evaluation(), first)
	task.TextAnswers = textWhenAsked
	rules := newRules(task)
	for content, why := range map[string]string{
		"Well.":         "Your reply had no tool call.",
		"`new_answer`.": "Your reply is only the name of a tool, which is no answer.",
	} {
		require.Equal(t, why+" Nothing was submitted and no tool was run. Submit your complete answer with a tool call. "+
			"If you cannot call tools, reply with your complete answer as plain text and nothing else: that text is then your answer.",
			rules.Judge(llm.Message{Content: content}).Say)
	}
	task.TextAnswers = "never"
	require.Equal(t, "Your reply had no tool call. Nothing was submitted and no tool was run. Finish by calling new_answer.", newRules(task).Judge(llm.Message{}).Say)
}

// A number alone names a label only where nothing but a vote is open: elsewhere it may be an answer.
func TestTextVote_number(t *testing.T) {
	t.Parallel()
	voting := func(t *task) { t.Offered = []coordination.Action{coordination.Vote} }
	for _, c := range []struct {
		content string
		change  func(*task)
		label   string
	}{
		{"3.1", voting, `"label":"agent3.1"`},
		{"**My vote:** 1.2.", voting, `"label":"agent1.2"`},
		{"2.1", voting, ""},
		{"3", voting, ""},
		{"3.1", func(*task) {}, ""},
		{"agent 3", func(*task) {}, `"label":"agent3.1"`},
	} {
		task := with(evaluation(), c.change)
		task.TextAnswers = textWhenAsked
		v := newRules(task).Judge(llm.Message{Content: c.content})
		if c.label == "" {
			require.Equal(t, noToolCalls, v.Rejected, c.content)
			continue
		}
		require.NotNil(t, v.Action, c.content)
		require.Contains(t, string(v.Action.Payload), c.label)
	}
}

// The vote of a weak model that copied the example of a hint and closed it with a typographic
// quote counts.
func TestTextVote_typographicQuote(t *testing.T) {
	t.Parallel()
	task := evaluation()
	p := play(t, t.Context(), task, says(`{"name": "vote", "arguments": {"agent_id": "3.1", "reason": "it is right”}}`))
	require.NoError(t, p.err)
	require.JSONEq(t, `{"number": 3, "label": "agent3.1", "reason": "it is right"}`, string(p.action.Payload))
}
