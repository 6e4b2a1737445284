package directory

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"conclave/engine/coordination"
)

// The directory was written by MassGen's step mode.
func TestRead_directoryOfAnotherProgram(t *testing.T) {
	t.Parallel()
	root, err := os.OpenRoot("testdata/massgen")
	require.NoError(t, err)
	defer root.Close()
	d, warnings, err := Read(root)
	require.NoError(t, err)
	require.Empty(t, warnings)
	require.Equal(t, []string{"agent_a", "agent_b", "agent_c"}, d.IDs())

	a, _ := d.Agent("agent_a")
	require.Equal(t, 1, a.Number)
	require.Equal(t, 2, a.Steps)
	require.Equal(t, 2, a.Finished)
	require.Len(t, a.Answers, 1)
	require.Equal(t, "agent1.1", a.Answers[0].Label)
	require.True(t, a.Answers[0].Files)
	require.Contains(t, a.Answers[0].Text, "/agents/agent_a/001/workspace/index.html")
	require.Equal(t, &coordination.Voted{
		End: coordination.End{Step: 2}, Choice: coordination.Choice{Target: "agent_b", Reason: "Agent B's approach is more thorough"},
		Seen: []coordination.Seen{{Agent: "agent_a", Step: 1}, {Agent: "agent_b", Step: 1}, {Agent: "agent_c", Step: 1}},
	}, a.Vote)

	c, _ := d.Agent("agent_c")
	require.Equal(t, []answer{
		{Step: 1, Label: "agent3.1"},
		{Step: 2, Label: "agent3.2", Text: "Two moons: Phobos and Deimos."},
	}, c.Answers)
	require.Nil(t, c.Vote)
}

func TestRead_emptyDirectory(t *testing.T) {
	t.Parallel()
	require.Empty(t, newSession(t, nil).clean().Agents)
	require.Empty(t, newSession(t, map[string]string{"agents/": ""}).clean().Agents)
	// An agent has a numbered directory.
	d := newSession(t, map[string]string{"agents/agent_a/last_action.json": "{}", "agents/agent_b/": ""}).clean()
	require.Empty(t, d.Agents)
}

// An unreadable step causes a warning. The previous answer and vote remain valid, and the number
// remains taken.
func TestRead_malformedStep(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		files map[string]string
		say   string
	}{
		"empty":               {map[string]string{"answer.json": ""}, "002/answer.json: is empty"},
		"blank":               {map[string]string{"answer.json": " \n"}, "002/answer.json: is empty"},
		"torn":                {map[string]string{"answer.json": `{"answer": "To`}, "002/answer.json: is not valid JSON"},
		"torn between tokens": {map[string]string{"answer.json": `{"answer": "To"`}, "002/answer.json: is not valid JSON: it ends too early"},
		"no JSON":             {map[string]string{"answer.json": `answer: x`}, "002/answer.json: is not valid JSON"},
		"two documents":       {map[string]string{"answer.json": answerJSON("x") + answerJSON("y")}, "002/answer.json: is not a JSON object"},
		"an array":            {map[string]string{"answer.json": `["x"]`}, "002/answer.json: is not a JSON object"},
		"a string":            {map[string]string{"answer.json": `"x"`}, "002/answer.json: is not a JSON object"},
		"null":                {map[string]string{"answer.json": `null`}, "002/answer.json: is not a JSON object: it is null"},
		"NaN":                 {map[string]string{"answer.json": `{"answer": "x", "score": NaN}`}, "002/answer.json: is not valid JSON"},
		"not UTF-8":           {map[string]string{"answer.json": "{\"answer\": \"\xff\"}"}, "002/answer.json: is not valid UTF-8"},
		"UTF-16":              {map[string]string{"answer.json": "\xff\xfe{\x00}\x00"}, "002/answer.json: is not valid UTF-8"},
		"no answer":           {map[string]string{"answer.json": `{"agent_id": "agent_a"}`}, `002/answer.json: has no "answer"`},
		"another case":        {map[string]string{"answer.json": `{"Answer": "x"}`}, `002/answer.json: has no "answer"`},
		"answer null":         {map[string]string{"answer.json": `{"answer": null}`}, `002/answer.json: has null under "answer", not a string`},
		"answer a number":     {map[string]string{"answer.json": `{"answer": 1}`}, `has a number under "answer"`},
		"answer an object":    {map[string]string{"answer.json": `{"answer": {"text": "x"}}`}, `has an object under "answer"`},
		"a key twice":         {map[string]string{"answer.json": `{"answer": "x", "answer": "y"}`}, `002/answer.json: has the key "answer" twice`},
		"a key twice, below":  {map[string]string{"answer.json": `{"answer": "x", "a": [{"b": 1, "b": 2}]}`}, `has the key "b" twice`},
		"deep":                {map[string]string{"answer.json": `{"answer": "x", "a": ` + strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000) + `}`}, "002/answer.json: is nested more than 100 deep"},
		"huge":                {map[string]string{"answer.json": answerJSON(strings.Repeat("x", 5<<20))}, "002/answer.json: has more than 4194304 bytes"},
		"a directory":         {map[string]string{"answer.json/x": ""}, "002/answer.json: is a directory, not a file"},
		"two actions":         {map[string]string{"answer.json": answerJSON("x"), "vote.json": vote("agent_a")}, "002: has answer.json and vote.json"},
		"two, one broken":     {map[string]string{"answer.json": "", "vote.json": vote("agent_a")}, "002: has answer.json and vote.json"},
		"three actions":       {map[string]string{"answer.json": answerJSON("x"), "vote.json": vote("agent_a"), "stop.json": stop("complete")}, "002: has answer.json and vote.json and stop.json"},
		"torn vote":           {map[string]string{"vote.json": `{"target"`}, "002/vote.json: is not valid JSON"},
		"vote without target": {map[string]string{"vote.json": `{"reason": "x"}`}, `002/vote.json: has no "target"`},
		"vote for a number":   {map[string]string{"vote.json": `{"target": 1}`}, `002/vote.json: has a number under "target"`},
		"reason a list":       {map[string]string{"vote.json": `{"target": "agent_a", "reason": []}`}, `002/vote.json: has an array under "reason"`},
		"stop without status": {map[string]string{"stop.json": `{"summary": "x"}`}, `002/stop.json: has no "status"`},
		"stop of another kind": {
			map[string]string{"stop.json": `{"summary": "x", "status": "tired"}`}, `002/stop.json: has the unknown status "tired"`,
		},
		"torn commit": {
			map[string]string{"action.json": `{"token"`, "answer.json": answerJSON("x")}, "002/action.json: is not valid JSON",
		},
		"commit without token": {
			map[string]string{"action.json": `{"kind": "new_answer", "payload": {"answer": "x"}}`}, `002/action.json: has no "token"`,
		},
		"commit of another kind": {
			map[string]string{"action.json": `{"token": "t", "kind": "dance", "payload": {}}`}, `002/action.json: has the unknown kind "dance"`,
		},
		"commit without payload": {
			map[string]string{"action.json": `{"token": "t", "kind": "vote"}`}, "002/action.json: has a payload that is empty",
		},
		"payload wrong": {
			map[string]string{"action.json": `{"token": "t", "kind": "vote", "payload": ["agent_a"]}`}, "has a payload that is not a JSON object",
		},
		"payload with a key twice": {
			map[string]string{"action.json": `{"token": "t", "kind": "new_answer", "payload": {"answer": "x", "answer": "y"}}`}, `has the key "answer" twice`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSession(t, map[string]string{"agents/agent_a/001/answer.json": answerJSON("older")})
			for file, content := range tt.files {
				s.write("agents/agent_a/002/"+file, content)
			}
			d, warnings := s.read()
			require.Len(t, warnings, 1)
			require.Contains(t, warnings[0], tt.say)
			require.True(t, strings.HasPrefix(warnings[0], "agents/agent_a/"))
			require.Equal(t, "older", latest(t, d, "agent_a"))
			a, _ := d.Agent("agent_a")
			require.Equal(t, 2, a.Steps)
			require.Equal(t, 1, a.Finished)
			require.Nil(t, a.Vote)
			require.Empty(t, a.Unfinished)
		})
	}
}

// Other programs may omit, add and change fields.
func TestRead_acceptedForms(t *testing.T) {
	t.Parallel()
	for name, content := range map[string]string{
		"only the answer":    `{"answer": "x"}`,
		"offset of UTC":      `{"answer": "x", "timestamp": "2026-03-20T22:32:03.512345+00:00"}`,
		"naive timestamp":    `{"answer": "x", "timestamp": "2026-03-20T22:32:03"}`,
		"no real timestamp":  `{"answer": "x", "timestamp": 17}`,
		"label of its own":   `{"answer": "x", "label": "agent9.9"}`,
		"final by its label": `{"answer": "x", "label": "agent1.final"}`,
		"label of no type":   `{"answer": "x", "label": 7}`,
		"more fields":        `{"answer": "x", "model": "m", "cost": {"usd": 1e400, "runs": [1, 2]}}`,
		"another agent_id":   `{"answer": "x", "agent_id": "somebody"}`,
		"the same in case":   `{"answer": "x", "Answer": "y"}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newSession(t, map[string]string{"agents/agent_a/001/answer.json": content}).clean()
			require.Equal(t, "x", latest(t, d, "agent_a"))
			require.Equal(t, "agent1.1", d.Agents[0].Answers[0].Label)
		})
	}
	empty := newSession(t, map[string]string{"agents/agent_a/001/answer.json": `{"answer": ""}`}).clean()
	require.Empty(t, latest(t, empty, "agent_a"))
}

func TestRead_names(t *testing.T) {
	t.Parallel()
	s := newSession(t, map[string]string{
		"agents/README":                                           "",
		"agents/Agent_B/001/answer.json":                          answerJSON("x"),
		"agents/agent b/001/answer.json":                          answerJSON("x"),
		"agents/gemini2.5 größe=2/001/answer.json":                answerJSON("x"),
		"agents/bell\a/001/answer.json":                           answerJSON("x"),
		"agents/back\\slash/001/answer.json":                      answerJSON("x"),
		"agents/notes":                                            "",
		"agents/.DS_Store":                                        "",
		"agents/a/001/answer.json":                                answerJSON("one"),
		"agents/a/1000/answer.json":                               answerJSON("thousand"),
		"agents/a/1/answer.json":                                  answerJSON("x"),
		"agents/a/02/answer.json":                                 answerJSON("x"),
		"agents/a/0003/answer.json":                               answerJSON("x"),
		"agents/a/000/answer.json":                                answerJSON("x"),
		"agents/a/1000000/answer.json":                            answerJSON("x"),
		"agents/a/١٢٣/answer.json":                                answerJSON("x"),
		"agents/a/12a/answer.json":                                answerJSON("x"),
		"agents/a/004/":                                           "",
		"agents/a/005/workspace/file":                             "",
		"agents/a/006":                                            "",
		"agents/a/last_action.json":                               "torn",
		"status.json":                                             "torn",
		"final/a/answer.json":                                     "torn",
		"agents/long-_0/001/answer.json":                          answerJSON("x"),
		"agents/z" + strings.Repeat("z", 32) + "/001/answer.json": answerJSON("x"),
	})
	d, warnings := s.read()
	require.Equal(t, []string{"Agent_B", "a", "agent b", "gemini2.5 größe=2", "long-_0", "z" + strings.Repeat("z", 32)}, d.IDs())
	require.Equal(t, "thousand", latest(t, d, "a"))
	require.Equal(t, 1000, d.Agents[1].Steps)
	require.Len(t, d.Agents[1].Answers, 2)
	var named []string
	for _, w := range warnings {
		path, _, _ := strings.Cut(w, ":")
		named = append(named, path)
	}
	require.Equal(t, []string{
		"agents/README",
		"agents/a/000", "agents/a/0003", "agents/a/006", "agents/a/02", "agents/a/1", "agents/a/1000000", "agents/a/١٢٣",
		"agents/back\\slash", "agents/bell\a", "agents/notes",
	}, named)
	require.Contains(t, strings.Join(warnings, "\n"), "agents/a/0003: is not a step number: step 3 is called 003; it is ignored")

	_, err := d.Launch("notes", coordination.Config{})
	var unusable *UnusableError
	require.ErrorAs(t, err, &unusable)
}

// A step with only a number or only files has no action and causes no warning.
func TestRead_stepWithoutAction(t *testing.T) {
	t.Parallel()
	d := newSession(t, map[string]string{
		"agents/a/001/answer.json": answerJSON("one"), "agents/a/002/": "", "agents/a/003/workspace/x": "",
	}).clean()
	require.Equal(t, 3, d.Agents[0].Steps)
	require.Equal(t, "one", latest(t, d, "a"))
}

func TestRead_commitIsTheAction(t *testing.T) {
	t.Parallel()
	s := newSession(t, map[string]string{
		// The state after a crash between the commit and its derived documents.
		"agents/a/001/action.json": `{"token": "t", "kind": "new_answer", "payload": {"answer": "committed", "label": "agent1.1"}, "manifest": "abc", "seen_steps": {}}`,
		"agents/a/002/action.json": `{"token": "t", "kind": "vote", "payload": {"target": "a", "target_label": "agent1.1", "reason": "r"}, "seen_steps": {"a": 1}, "heard": 2}`,
		"agents/a/002/vote.json":   vote("somebody else"),
		"agents/a/002/step.json":   "torn, and not looked at",
		"agents/b/001/action.json": `{"token": "t", "kind": "stop", "payload": {"status": "blocked", "summary": "s"}, "seen_steps": {"a": 1}}`,
		"agents/b/001/answer.json": answerJSON("not what was committed"),
		"agents/b/002/action.json": `{"token": "t", "kind": "submit", "payload": {}}`,
		"agents/b/003/action.json": `{"token": "t", "kind": "new_answer", "payload": {"answer": "presented", "label": "agent2.final"}}`,
	})
	d, warnings := s.read()
	require.Equal(t, []string{"agents/b/001/answer.json: is ignored: action.json says that the step ended with stop"}, warnings)
	a, _ := d.Agent("a")
	require.Equal(t, []answer{{Step: 1, Label: "agent1.1", Text: "committed", Files: true}}, a.Answers)
	require.Equal(t, &coordination.Voted{
		End: coordination.End{Step: 2}, Choice: coordination.Choice{Target: "a", TargetLabel: "agent1.1", Reason: "r"}, Seen: []coordination.Seen{{Agent: "a", Step: 1}}, Heard: 2,
	}, a.Vote)
	b, _ := d.Agent("b")
	require.Equal(t, &coordination.Stopped{
		End: coordination.End{Step: 1}, Status: coordination.Blocked, Summary: "s", Seen: []coordination.Seen{{Agent: "a", Step: 1}},
	}, b.Stop)
	require.Empty(t, b.Answers)
	require.Equal(t, 3, b.Steps)
}

func TestRead_ordersStepsByNumber(t *testing.T) {
	t.Parallel()
	d := newSession(t, map[string]string{
		"agents/a/999/answer.json": answerJSON("999"), "agents/a/1000/answer.json": answerJSON("1000"), "agents/a/1001/vote.json": vote("a", "a:1000"),
	}).clean()
	require.Equal(t, "1000", latest(t, d, "a"))
	require.NotNil(t, d.Agents[0].Vote)
	require.Equal(t, 1001, d.Agents[0].Steps)
}

func TestRead_unfinishedSteps(t *testing.T) {
	t.Parallel()
	s := newSession(t, map[string]string{
		"agents/a/001/answer.json": answerJSON("one"),
		"agents/a/002/step.json":   `{"token": "run-1", "seen_steps": {"a": 1}, "labels": ["agent1.1"], "started_at": "2026-03-20T22:32:03Z"}`,
		"agents/a/003/step.json":   `{"token": ""`,
		"agents/a/004/step.json":   `{"seen_steps": {}}`,
		"agents/b/001/step.json":   `{"token": "run-2", "seen_steps": {"a": "1"}}`,
	})
	d, warnings := s.read()
	require.Len(t, warnings, 3)
	require.Contains(t, warnings[0], "agents/a/003/step.json: is not valid JSON")
	require.Contains(t, warnings[1], `agents/a/004/step.json: has no "token"; the step cannot be resumed`)
	require.Contains(t, warnings[2], `agents/b/001/step.json: has seen_steps of "a" that is not a step number`)
	a, _ := d.Agent("a")
	require.Equal(t, 4, a.Steps)
	require.Len(t, a.Unfinished, 1)
	u := a.Unfinished[0]
	require.Equal(t, 2, u.Step)
	require.Equal(t, "run-1", u.Token)
	require.Equal(t, map[string]int{"a": 1}, u.SeenSteps)
	require.Equal(t, []string{"agent1.1"}, u.Labels)
	require.Equal(t, time.Date(2026, 3, 20, 22, 32, 3, 0, time.UTC), u.StartedAt)
	b, _ := d.Agent("b")
	require.Len(t, b.Unfinished, 1)
	require.Equal(t, 2, b.Number, "an agent whose first step is running has its number")
}

// A vote cannot have seen steps that are not taken.
func TestRead_seenSteps(t *testing.T) {
	t.Parallel()
	a1 := []coordination.Seen{{Agent: "a", Step: 1}}
	for name, tt := range map[string]struct {
		seen string
		want []coordination.Seen
		say  string
	}{
		"all":          {`{"a": 1}`, a1, ""},
		"absent":       {``, nil, ""},
		"null":         {`null`, nil, ""},
		"none":         {`{}`, nil, ""},
		"zero":         {`{"a": 1, "v": 0}`, a1, ""},
		"unknown":      {`{"a": 1, "gone": 7}`, []coordination.Seen{{Agent: "a", Step: 1}, {Agent: "gone", Step: 7}}, ""},
		"a string":     {`{"a": "1"}`, nil, `has seen_steps of "a" that is not a step number; it counts as not seen`},
		"a fraction":   {`{"a": 1.0}`, nil, `has seen_steps of "a" that is not a step number`},
		"negative":     {`{"a": -1}`, nil, `has seen_steps of "a" that is not a step number`},
		"huge":         {`{"a": 99999999999999999999}`, nil, `has seen_steps of "a" that is not a step number`},
		"null for one": {`{"a": null}`, nil, `has seen_steps of "a" that is not a step number`},
		"a crowd": {
			`{` + crowd(1001) + `}`, nil, "has more than 1000 agents under \"seen_steps\"",
		},
		"a list":     {`["a"]`, nil, `has an array under "seen_steps", not an object; it counts as having seen nothing`},
		"the future": {`{"a": 2}`, nil, "claims to have seen step 2 of a, which has 1; it counts as not seen"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			content := `{"target": "a"}`
			if tt.seen != "" {
				content = `{"target": "a", "seen_steps": ` + tt.seen + `}`
			}
			s := newSession(t, map[string]string{"agents/a/001/answer.json": answerJSON("x"), "agents/v/001/vote.json": content})
			d, warnings := s.read()
			v, _ := d.Agent("v")
			require.NotNil(t, v.Vote)
			require.Equal(t, tt.want, v.Vote.Seen)
			if tt.say == "" {
				require.Empty(t, warnings)
				return
			}
			require.Len(t, warnings, 1)
			require.Contains(t, warnings[0], "agents/v/001")
			require.Contains(t, warnings[0], tt.say)
		})
	}
}

// crowd returns a seen_steps object with n agents.
func crowd(n int) string {
	pairs := make([]string, n)
	for i := range pairs {
		pairs[i] = fmt.Sprintf(`"a%d": 1`, i)
	}
	return strings.Join(pairs, ", ")
}

// A vote for an agent without an answer is ignored, and the previous vote remains valid.
func TestRead_voteForNobody(t *testing.T) {
	t.Parallel()
	d, warnings := newSession(t, map[string]string{
		"agents/a/001/answer.json": answerJSON("x"),
		"agents/b/001/":            "",
		"agents/v/001/vote.json":   vote("a", "a:1"),
		"agents/v/002/vote.json":   vote("b", "a:1"),
		"agents/v/003/vote.json":   vote("agent1", "a:1"),
	}).read()
	require.Equal(t, []string{
		`agents/v/003: is a vote for "agent1", who has no answer; it is ignored`,
		`agents/v/002: is a vote for "b", who has no answer; it is ignored`,
	}, warnings)
	v, _ := d.Agent("v")
	require.Equal(t, 1, v.Vote.Step)
}

func TestRead_laterActionReplacesEarlier(t *testing.T) {
	t.Parallel()
	d := newSession(t, map[string]string{
		"agents/a/001/answer.json": answerJSON("x"), "agents/a/002/vote.json": vote("a"), "agents/a/003/answer.json": answerJSON("y"),
		"agents/b/001/vote.json": vote("a"), "agents/b/002/stop.json": stop("complete"),
		"agents/c/001/stop.json": stop("complete"), "agents/c/002/vote.json": vote("a"),
	}).clean()
	require.Nil(t, d.Agents[0].Vote, "an answer withdraws its agent's vote")
	require.Nil(t, d.Agents[1].Vote)
	require.NotNil(t, d.Agents[1].Stop)
	require.NotNil(t, d.Agents[2].Vote)
	require.Nil(t, d.Agents[2].Stop)
}

// Labels number the agents with a numbered directory, and the runner.
func TestDirectory_With(t *testing.T) {
	t.Parallel()
	d := newSession(t, map[string]string{
		"agents/agent_b/001/answer.json": answerJSON("b"), "agents/agent_d/002/answer.json": answerJSON("d"), "agents/agent_d/007/answer.json": answerJSON("d2"),
	}).clean()
	require.Equal(t, "agent1.1", d.Agents[0].Answers[0].Label)
	require.Equal(t, "agent2.2", d.Agents[1].Answers[1].Label)
	with := d.With("agent_a")
	require.Equal(t, []string{"agent_a", "agent_b", "agent_d"}, with.IDs())
	require.Equal(t, "agent2.1", with.Agents[1].Answers[0].Label)
	require.Equal(t, "agent3.2", with.Agents[2].Answers[1].Label)
	require.Equal(t, "agent1.1", d.Agents[0].Answers[0].Label, "the directory itself does not change")
	require.Equal(t, with.IDs(), with.With("agent_b").IDs())
}

func TestRead_followsNoLinks(t *testing.T) {
	t.Parallel()
	outside := newSession(t, map[string]string{
		"answer.json": answerJSON("secret"), "001/answer.json": answerJSON("secret"), "agents/x/001/answer.json": answerJSON("secret"), "secret": "secret",
	})
	s := newSession(t, map[string]string{"agents/agent_a/001/answer.json": answerJSON("older")})
	s.link(outside.path("answer.json"), "agents/agent_a/002/answer.json")
	s.link("../001/answer.json", "agents/agent_a/003/answer.json")
	s.link(outside.path("001"), "agents/agent_a/004")
	s.link("001", "agents/agent_a/005")
	s.link(outside.dir, "agents/agent_b")
	s.link("agent_a", "agents/agent_c")
	s.link("nowhere", "agents/agent_a/006/action.json")
	s.write("agents/agent_a/007/answer.json", answerJSON("newest"))
	s.link(outside.dir, "agents/agent_a/007/workspace")
	s.link(outside.dir, "ledger")
	d, warnings := s.read()
	require.Equal(t, []string{"agent_a"}, d.IDs())
	require.Equal(t, "newest", latest(t, d, "agent_a"))
	newest, _ := d.Agents[0].newest()
	require.False(t, newest.Files)
	require.Equal(t, []string{
		"ledger: is a symbolic link, not a directory; the ledger is ignored, and all actions count",
		"agents/agent_a/004: is a symbolic link, not a directory; there is no step in it",
		"agents/agent_a/005: is a symbolic link, not a directory; there is no step in it",
		"agents/agent_a/002/answer.json: is a symbolic link, not a file; the step is ignored",
		"agents/agent_a/003/answer.json: is a symbolic link, not a file; the step is ignored",
		"agents/agent_a/006/action.json: is a symbolic link, not a file; the step is ignored",
		"agents/agent_a/007/workspace: is a symbolic link, not a directory; the answer has no files",
		"agents/agent_b: is a symbolic link, not a directory; it is ignored",
		"agents/agent_c: is a symbolic link, not a directory; it is ignored",
	}, warnings)
}

func TestRead_agentsIsNoDirectory(t *testing.T) {
	t.Parallel()
	for name, make := range map[string]func(s sessionDirectory){
		"a file":        func(s sessionDirectory) { s.write("agents", "") },
		"a link inside": func(s sessionDirectory) { s.write("elsewhere/", ""); s.link("elsewhere", "agents") },
		"a link out":    func(s sessionDirectory) { s.link(s.t.TempDir(), "agents") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSession(t, nil)
			make(s)
			_, _, err := Read(s.root)
			var unusable *UnusableError
			require.ErrorAs(t, err, &unusable)
			require.Contains(t, err.Error(), "agents is a")
		})
	}
}

func TestRead_doesNotBlockOnAFIFO(t *testing.T) {
	t.Parallel()
	s := newSession(t, map[string]string{
		"agents/agent_a/001/answer.json": answerJSON("older"), "agents/agent_a/002/": "", "agents/agent_a/003/": "", "agents/agent_a/004/answer.json": answerJSON("newest"),
		"ledger/": "",
	})
	for _, name := range []string{
		"agents/agent_a/002/answer.json", "agents/agent_a/003/step.json", "agents/agent_a/004/workspace", "agents/agent_a/005", "agents/agent_b", "ledger/000001.json",
	} {
		require.NoError(t, syscall.Mkfifo(s.path(name), 0o644))
	}
	d, warnings := s.read()
	require.Equal(t, "newest", latest(t, d, "agent_a"))
	require.Len(t, warnings, 6)
	for _, w := range warnings {
		require.Contains(t, w, "is a FIFO")
	}
}

func TestRead_permissionDenied(t *testing.T) {
	t.Parallel()
	if os.Geteuid() == 0 {
		t.Skip("root may read everything")
	}
	s := newSession(t, map[string]string{
		"agents/agent_a/001/answer.json": answerJSON("older"), "agents/agent_a/002/answer.json": answerJSON("newer"), "agents/agent_b/001/answer.json": answerJSON("b"),
	})
	require.NoError(t, os.Chmod(s.path("agents/agent_a/002/answer.json"), 0))
	require.NoError(t, os.Chmod(s.path("agents/agent_b"), 0))
	t.Cleanup(func() { _ = os.Chmod(s.path("agents/agent_b"), 0o755) })
	d, warnings := s.read()
	require.Equal(t, "older", latest(t, d, "agent_a"))
	require.Equal(t, []string{
		"agents/agent_a/002/answer.json: cannot be read: permission denied; the step is ignored",
		"agents/agent_b: cannot be read: permission denied; it is ignored",
	}, warnings)
}
