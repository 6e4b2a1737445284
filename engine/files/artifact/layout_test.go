package artifact_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/engine/files/artifact"
)

// Other programs read the keys, so they must not change.
func TestLayout(t *testing.T) {
	t.Parallel()
	session, pipeline, run := artifact.InBucket("s1"), artifact.InPipeline("p1"), artifact.InScenario("buy", "r1")
	for want, got := range map[string]string{
		"session.json":             artifact.Layout{}.File("session.json"),
		"sessions/s1/":             session.Root(),
		"sessions/s1/session.json": session.File("session.json"),
		"sessions/s1/agents/agent_a/last_action.json":        session.Agent("agent_a", "last_action.json"),
		"sessions/s1/agents/agent_a/001/step.json":           session.Step("agent_a", 1, "step.json"),
		"sessions/s1/agents/agent_a/012/vote.json":           session.Step("agent_a", 12, "vote.json"),
		"sessions/s1/agents/agent_a/1234/vote.json":          session.Step("agent_a", 1234, "vote.json"),
		"sessions/s1/final/agent_a/answer.json":              session.Final("agent_a", "answer.json"),
		"sessions/s1/messages/007.json":                      session.Message(7),
		"sessions/s1/ledger/000042.json":                     session.Ledger(42),
		"sessions/s1/runs/r1/state.json":                     session.SavedState("r1"),
		"sessions/s1/blobs/sha256/abc":                       session.Blob("abc"),
		"sessions/s1/journal/r1-l1/":                         session.Journals("r1-l1"),
		"sessions/s1/journal/r1-l1/000003.json":              session.Journal("r1-l1", 3),
		"sessions/s1/calls/c1.json":                          session.CallArguments("c1"),
		"sessions/s1/calls/c1.result.json":                   session.CallResult("c1"),
		"calls/abc.json":                                     artifact.CallPointer("abc"),
		"pipelines/p1/pipeline.json":                         pipeline.File("pipeline.json"),
		"pipelines/p1/steps/001-main/step.json":              pipeline.PipelineStep(1, "main", "step.json"),
		"pipelines/p1/steps/123-main/step.json":              pipeline.PipelineStep(123, "main", "step.json"),
		"scenarios/buy/runs/r1/result.json":                  run.File("result.json"),
		"scenarios/buy/runs/r1/step-01/step.json":            run.ScenarioStep("01", 1, "step.json"),
		"scenarios/buy/runs/r1/step-01/x":                    run.ScenarioStep("01", 0, "x"),
		"scenarios/buy/runs/r1/step-01/launch-2/x":           run.ScenarioStep("01", 2, "x"),
		"scenarios/buy/runs/r1/step-01/evidence/a":           run.Evidence("01", 1, "a"),
		"scenarios/buy/runs/r1/step-01/attempt-3/evidence/a": run.Evidence("01", 3, "a"),
	} {
		require.Equal(t, want, got)
		if !strings.HasSuffix(got, "/") {
			require.NoError(t, artifact.CheckKey(got))
		}
	}
	require.Nil(t, session.Base())
	odd := artifact.WorkflowKey("shop/../buy \x00")
	require.NoError(t, artifact.CheckKey(odd))
	require.NotEqual(t, odd, artifact.WorkflowKey("shop/../buy \x01"))
}

func TestCheckKey(t *testing.T) {
	t.Parallel()
	for key, want := range map[string]string{
		"a":                                "",
		"a/b.c/d_e-f":                      "",
		"a/.hidden":                        "",
		"a/=20b":                           "",
		"...":                              "its first segment starts with a dot",
		"":                                 "it is empty",
		".a":                               "such names are reserved for the store",
		"/a":                               "it has an empty segment: use single slashes, none first or last",
		"a/":                               "it has an empty segment",
		"a//b":                             "it has an empty segment",
		"a/./b":                            `it has a segment ".": use the plain name`,
		"a/../b":                           `it has a segment ".."`,
		"a b":                              `it has the byte ' ': letters, digits and ._-=/ are allowed; escape others with EscapePath`,
		"ä":                                "it has the byte",
		"a=":                               `it has a "=" that begins no escape: use EscapePath`,
		"a=2":                              "begins no escape",
		"a=zz":                             "begins no escape",
		"a=41":                             "begins no escape",
		"a=2f":                             "begins no escape",
		"a=00":                             "begins no escape",
		strings.Repeat("a", 255):           "",
		strings.Repeat("a", 256):           "it has a segment of 256 bytes: at most 255 are allowed",
		strings.Repeat("abc/", 250)[:999]:  "",
		strings.Repeat("abc/", 251) + "ab": "it has 1006 bytes: at most 1000 are allowed",
	} {
		err := artifact.CheckKey(key)
		if want == "" {
			require.NoError(t, err, key)
			continue
		}
		var bad *artifact.NameError
		require.ErrorAs(t, err, &bad, key)
		require.ErrorContains(t, err, want, key)
	}
	require.NoError(t, artifact.CheckPrefix(""))
	require.NoError(t, artifact.CheckPrefix("a/b/"))
	require.ErrorContains(t, artifact.CheckPrefix("a/b"), `it does not end in "/"`)
	require.ErrorContains(t, artifact.CheckPrefix("a//"), "empty segment")
	require.ErrorContains(t, artifact.CheckPrefix("/"), "it is empty")
}

func TestCheckSessionID_problems(t *testing.T) {
	t.Parallel()
	for id, want := range map[string]string{
		"s1": "", "A.b_c-1": "", "...": "", strings.Repeat("s", 128): "",
		"":                       "it is empty; give the session an ID",
		".":                      "it would name a directory",
		"..":                     "it would name a directory",
		strings.Repeat("s", 129): "it has 129 bytes; at most 128 are allowed",
		"a/b":                    "it has the character '/'",
		"ü":                      "it has the character 'ü'",
		"a b":                    "ASCII letters, digits, '.', '_' and '-' are allowed",
	} {
		err := artifact.CheckSessionID(id)
		if want == "" {
			require.NoError(t, err, id)
		} else {
			require.ErrorContains(t, err, want, id)
		}
	}
}

func TestCheckContextName(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"docs", "a.b_c-1", strings.Repeat("d", 64)} {
		require.NoError(t, artifact.CheckContextName(name), name)
	}
	for _, name := range []string{"", ".docs", "..", "a/b", "a b", "a=20b", "ä", strings.Repeat("d", 65)} {
		var bad *artifact.NameError
		require.ErrorAs(t, artifact.CheckContextName(name), &bad, name)
	}
	require.False(t, artifact.Material{}.Given())
	require.True(t, artifact.Material{Base: "sha256:0"}.Given())
	require.True(t, artifact.Material{Context: []artifact.Context{{}}}.Given())
}

// A caller's tools have the format of OpenAI's API. Every error names the position.
func TestCaller_Check(t *testing.T) {
	t.Parallel()
	tools := func(list string) artifact.Caller { return artifact.Caller{ClientTools: json.RawMessage(list)} }
	function := func(name, parameters string) string {
		return fmt.Sprintf(`{"type":"function","function":{"name":%q,"description":"d","parameters":%s}}`, name, parameters)
	}
	var many []string
	for n := range 200 {
		many = append(many, function(fmt.Sprintf("f%d", n), "{}"))
	}
	for name, tt := range map[string]struct {
		caller artifact.Caller
		want   string // empty if it is accepted
	}{
		"nothing":                {artifact.Caller{}, ""},
		"instructions":           {artifact.Caller{Instructions: "Be brief."}, ""},
		"long instructions":      {artifact.Caller{Instructions: strings.Repeat("x", 10_001)}, "the instructions have 10001 bytes, at most 10000 are accepted"},
		"instructions in Latin":  {artifact.Caller{Instructions: "caf\xe9"}, "the instructions are not UTF-8 text"},
		"a negative depth":       {artifact.Caller{Depth: -1}, "the depth is -1: teams may ask teams at most"},
		"the deepest":            {artifact.Caller{Depth: artifact.MaxTeamDepth}, ""},
		"too deep":               {artifact.Caller{Depth: artifact.MaxTeamDepth + 1}, "does a team ask itself?"},
		"tools for all":          {artifact.Caller{ClientToolsFor: artifact.ForAll}, ""},
		"tools for the last":     {artifact.Caller{ClientToolsFor: artifact.ForPresenter}, ""},
		"tools for somebody":     {artifact.Caller{ClientToolsFor: "agent_a"}, `client_tools_for is "agent_a": give all or presenter`},
		"null":                   {tools("null"), ""},
		"no tools":               {tools("[]"), ""},
		"one":                    {tools("[" + function("search", `{"type":"object"}`) + "]"), ""},
		"without parameters":     {tools(`[{"type":"function","function":{"name":"now"}}]`), ""},
		"an object for a list":   {tools("{}"), "client_tools is not a list of tools: give ["},
		"another type":           {tools(`[{"type":"web_search"}]`), `client_tools[0] has the type "web_search": only functions are supported`},
		"no name":                {tools("[" + function("", "{}") + "]"), `client_tools[0] has the name "": give 1 to 56 letters, digits, dashes and underscores`},
		"a name with a space":    {tools("[" + function("a", "{}") + "," + function("a b", "{}") + "]"), "client_tools[1] has the name"},
		"the longest name":       {tools("[" + function(strings.Repeat("n", 56), "{}") + "]"), ""},
		"a name too long":        {tools("[" + function(strings.Repeat("n", 57), "{}") + "]"), "give 1 to 56"},
		"a name twice":           {tools("[" + function("a", "{}") + "," + function("a", "{}") + "]"), `client_tools[1] has the name "a" of an earlier one`},
		"parameters of no shape": {tools("[" + function("a", `"x"`) + "]"), "client_tools[0].function.parameters is not a JSON Schema of an object"},
		"too many":               {tools("[" + strings.Join(many, ",") + "]"), "there are 200 client_tools, at most"},
		"too large":              {tools("[" + function("a", `{"x":"`+strings.Repeat("x", 10_000)+`"}`) + "]"), "the client_tools have"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			most := 10_000
			if name == "too many" {
				most = 1 << 20
			}
			err := tt.caller.Check(most)
			if tt.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, tt.want)
		})
	}
	decoded, err := tools(`[{"type":"function","function":{"name":"now"}}]`).Tools()
	require.NoError(t, err)
	require.JSONEq(t, `{"type":"object","properties":{}}`, string(decoded[0].Parameters))
	require.True(t, artifact.Caller{}.IsZero())
	for _, c := range []artifact.Caller{{Instructions: "x"}, {Depth: 1}, tools("[]"), {ClientToolsFor: "all"}} {
		require.False(t, c.IsZero())
	}
}

func TestSessionHash(t *testing.T) {
	t.Parallel()
	require.Regexp(t, `^[0-9a-f]{16}$`, artifact.SessionHash("s1"))
	require.NotEqual(t, artifact.SessionHash("s1"), artifact.SessionHash("s2"))
}
