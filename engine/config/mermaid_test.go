package config

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/engine/pipeline"
)

const looping = `start: draft
agents: [{id: a, backend: {model: m}}]
steps:
  - {name: draft, max_visits: {count: 2, then: publish}, destinations: [ask], next: review}
  - {name: review, kind: tools, calls: [{tool: list_files}], next: [{when: {failed: true, text_matches: 'a|"b"'}, to: draft}, {to: publish}]}
  - {name: ask}
  - {name: publish}
`

func drawn(t *testing.T) Pipeline {
	t.Helper()
	p, _, err := ParsePipeline("p.yaml", []byte(looping), Local)
	require.NoError(t, err)
	return p
}

func TestMermaid_labelsConditionsAndVisits(t *testing.T) {
	t.Parallel()
	text := drawn(t).Mermaid()
	require.Contains(t, text, `s_review -->|"failed, text matches a#124;#quot;b#quot;"| s_draft`)
	require.Contains(t, text, `s_draft ==>|"after 2×"| s_publish`)
}

// The colour of a step shows how it last ended; the arrows that were taken are bold.
func TestMermaidRun(t *testing.T) {
	t.Parallel()
	trace := []pipeline.TraceEntry{
		{Step: "draft", Status: pipeline.CallPending, Action: pipeline.Call, To: "ask"},
		{Step: "ask", Status: pipeline.Completed},
		{Step: "draft", Status: pipeline.MaxIterations},
		{Step: "review", Status: pipeline.Completed, Failed: true, Text: "a"},
		{Step: "draft", Status: pipeline.Failed},
		{Step: "draft", Status: pipeline.Completed},
		{Step: "review", Status: pipeline.Completed, Failed: true, Text: "a"}, // draft was entered twice
	}
	p := drawn(t)
	require.Equal(t, `flowchart TD
    s_draft["draft<br/>agent · 2×"]
    s_review[["review<br/>tools · 2×"]]
    s_ask["ask<br/>agent"]
    s_publish["publish<br/>agent"]
    start((start)) --> s_draft
    s_draft --> s_review
    s_draft -.-> s_ask
    s_draft ==>|"after 2×"| s_publish
    s_review -->|"failed, text matches a#124;#quot;b#quot;"| s_draft
    s_review --> s_publish
    classDef completed fill:#d3f9d8,stroke:#2b8a3e,color:#000
    class s_draft,s_review,s_ask completed
    classDef running fill:#d0ebff,stroke:#1971c2,color:#000,stroke-width:4px
    class s_publish running
    linkStyle 0,1,2,3,4 stroke-width:4px
`, p.MermaidRun(trace, "publish", nil))

	waiting := p.MermaidRun(trace[:1], "ask", []string{"draft"})
	require.Contains(t, waiting, "class s_draft callpending")
	require.Contains(t, waiting, "class s_review,s_publish unvisited")
	require.Contains(t, waiting, "linkStyle 0,2 stroke-width:4px")
	require.Contains(t, p.MermaidRun(nil, "draft", nil), "linkStyle 0 stroke")
	require.Contains(t, p.MermaidRun(append(trace[:6:6], pipeline.TraceEntry{Step: "review", Status: pipeline.Completed}), "publish", nil), "linkStyle 0,1,2,4,5 stroke")
}

// If several rules lead to the step that was entered, all of them are bold.
func TestMermaidRun_rulesWithTheSameDestination(t *testing.T) {
	t.Parallel()
	p, _, err := ParsePipeline("p.yaml", []byte(`start: lint
agents: [{id: a, backend: {model: m}}]
steps:
  - {name: lint, kind: tools, calls: [{tool: list_files}], next: [{when: {failed: true}, to: mend}, {when: {text_matches: odd}, to: mend}, {to: done}]}
  - {name: mend}
  - {name: done}
`), Local)
	require.NoError(t, err)
	end := pipeline.TraceEntry{Step: "lint", Status: pipeline.Completed}
	require.Contains(t, p.MermaidRun([]pipeline.TraceEntry{end}, "mend", nil), "linkStyle 0,1,2 stroke-width")
	require.Contains(t, p.MermaidRun([]pipeline.TraceEntry{end}, "done", nil), "linkStyle 0,3 stroke-width")
}

// Each branch takes the arrow from its fork, and its line the arrow on from the fork once.
func TestMermaidRun_branches(t *testing.T) {
	t.Parallel()
	p, _, err := ParsePipeline("p.yaml", []byte(`start: plan
agents: [{id: a, backend: {model: m}}]
steps:
  - {name: plan, next: review}
  - {name: review, kind: parallel, branches: {one: lint, two: audit}, next: report}
  - {name: lint, next: fix}
  - {name: fix}
  - {name: audit}
  - {name: report}
`), Local)
	require.NoError(t, err)
	entry := func(branch, step string) (g pipeline.TraceEntry) {
		require.NoError(t, json.Unmarshal(fmt.Appendf(nil, `{"number":1,"step":%q,"branch":%q,"status":"completed"}`, step, branch), &g))
		return g
	}
	way := p.walkTrace([]pipeline.TraceEntry{
		entry("", "plan"), entry("review/two", "audit"), entry("review/one", "lint"), entry("review/one", "fix"), entry("", "review"),
	}, "report")
	var taken []string
	for _, e := range way.taken {
		taken = append(taken, e.from+e.arrow+e.to)
	}
	require.Equal(t, []string{"-->plan", "plan-->review", "review-->report", "review--oaudit", "review--olint", "lint-->fix"}, taken)
}
