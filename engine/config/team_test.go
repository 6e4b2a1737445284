package config

import (
	"errors"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/engine/coordination"
)

func parse(t *testing.T, text string) Team {
	t.Helper()
	team, err := Parse("team.yaml", []byte(text), Local)
	require.NoError(t, err)
	return team
}

func TestDefault_hasTheDocumentedValues(t *testing.T) {
	t.Parallel()
	agent := func(id string) Agent {
		return Agent{ID: id, Backend: Backend{Type: "openai", Model: "gpt-5.2"}, Tools: builtinTools{Files: true, Shell: ShellOff}}
	}
	require.Equal(t, Team{
		Agents: []Agent{agent("agent_a"), agent("agent_b"), agent("agent_c")},
		Orchestrator: Orchestrator{
			CoordinationMode: "voting", Pacing: "rounds", UpdateMode: "inject", OnSplit: "revote",
			MaxRevotes: 1, MaxStepsPerAgent: 12, MaxModelCallsPerStep: 200, ThinkFirst: "auto", VotingSensitivity: "lenient",
			FairnessEnabled: true, FairnessLeadCapAnswers: 2, MaxMidstreamInjectionsPerRound: 2,
			AnswerNoveltyRequirement: "lenient", MaxChecklistCallsPerRound: 1,
			FinalAnswerStrategy: "winner_reuse", OnAgentFailure: "continue", MinActiveAgents: 1, MaxQuestions: 3, AskTimeoutSeconds: 86400, OnAskTimeout: "park",
			TextAnswers: "auto", PeerVisibility: "all", ShowAgreement: true,
			DecideWhen: "all", QuorumGraceSeconds: 30, TeamSize: teamSize{Step: 1}, Ballot: "text",
			Coordination: preparation{
				PersonaGenerator:                     personaGenerator{DiversityMode: "perspective", AfterFirstAnswer: "drop"},
				EvaluationCriteriaGenerator:          criteriaGenerator{MinCriteria: 4, MaxCriteria: 7},
				TaskDecomposer:                       taskDecomposer{Enabled: true},
				RoundEvaluatorTransformationPressure: "balanced",
			},
		},
		Timeouts: timeouts{OrchestratorTimeoutSeconds: 7200, RoundTimeoutGraceSeconds: 120, OutageSeconds: 600, AwaySeconds: 60, ClientToolsTimeoutSeconds: 3600},
	}, Default())
}

// contract is the example in the public contract: every key with its default value, and keys
// without a default.
const contract = `
agents:
  - id: agent_a
    backend:
      type: openai
      provider: openai
      model: gpt-5.2
      base_url: http://127.0.0.1:11434/v1
      api_key_env: OPENAI_API_KEY
      params: {temperature: 0.7}
    system_message: Be brief.
    tools: {files: true, shell: false}
orchestrator:
  coordination_mode: voting
  pacing: rounds
  update_mode: inject
  on_split: revote
  max_revotes: 1
  max_steps_per_agent: 12
  voting_sensitivity: lenient
  disable_injection: false
  fairness_enabled: true
  fairness_lead_cap_answers: 2
  max_midstream_injections_per_round: 2
  defer_peer_updates_until_restart: false
  allow_midstream_peer_updates_before_checklist_submit: null
  max_new_answers_per_agent: null
  max_new_answers_global: null
  defer_voting_until_all_answered: false
  answer_novelty_requirement: lenient
  max_checklist_calls_per_round: 1
  checklist_first_answer: false
  skip_voting: false
  skip_final_presentation: false
  final_answer_strategy: winner_reuse
  presenter_agent: null
  max_orchestration_restarts: 0
  on_agent_failure: continue
  min_active_agents: 1
  peer_visibility: all
  text_answers: auto
  allow_solo_refinement: false
  agree: normalized
  show_agreement: true
  max_rounds: null
  decide_when: all
  quorum_grace_seconds: 30
  team_size: {start: null, step: 1}
  early_agreement: false
  ballot: text
  ballot_confidence: false
  show_checks: false
  act_when: {min_support: null}
  budget: {max_cost_usd: null, max_total_tokens: null}
  coordination:
    persona_generator: {enabled: false}
    evaluation_criteria_generator: {enabled: false, min_criteria: 4, max_criteria: 7}
    task_decomposer: {enabled: true}
    checklist_criteria_inline: null
    round_evaluator_before_checklist: false
    orchestrator_managed_round_evaluator: false
    round_evaluator_transformation_pressure: balanced
    criteria_preset: null
    round_evaluator: {backend: null}
    stop_at_ceiling: false
timeout_settings:
  orchestrator_timeout_seconds: 7200
  initial_round_timeout_seconds: null
  subsequent_round_timeout_seconds: null
  round_timeout_grace_seconds: 120
`

func TestParse_acceptsEveryKeyOfTheContract(t *testing.T) {
	t.Parallel()
	team := parse(t, contract)
	want := Default()
	want.Agents = []Agent{{
		ID: "agent_a",
		Backend: Backend{
			Type: "openai", Provider: "openai", Model: "gpt-5.2", BaseURL: "http://127.0.0.1:11434/v1",
			APIKeyEnv: "OPENAI_API_KEY", Params: map[string]any{"temperature": 0.7},
		},
		SystemMessage: "Be brief.",
		Tools:         builtinTools{Files: true, Shell: ShellOff},
	}}
	want.Orchestrator.Agree = "normalized"
	require.Equal(t, want, team)
}

func TestParse_setsEveryAvailableKey(t *testing.T) {
	t.Parallel()
	team := parse(t, `
agents:
  - id: agent_a
    backend: {type: offline}
    tools: {files: false, shell: true}
    mcp_servers:
      - browser
      - {name: my-files_2, command: server, args: [-x, ""], env: {LEVEL: debug, TOKEN: "${MY_TOKEN}"}}
      - {name: web, url: "https://h/mcp?v=1"}
orchestrator:
  pacing: continuous
  update_mode: restart
  on_split: plurality
  max_revotes: 3
  max_steps_per_agent: 4
  max_model_calls_per_step: 50
  think_first: on
  voting_sensitivity: checklist_gated
  fairness_enabled: false
  fairness_lead_cap_answers: 0
  max_midstream_injections_per_round: 1
  defer_peer_updates_until_restart: true
  allow_midstream_peer_updates_before_checklist_submit: true
  max_new_answers_per_agent: 2
  max_new_answers_global: 5
  defer_voting_until_all_answered: true
  answer_novelty_requirement: strict
  max_checklist_calls_per_round: 2
  checklist_first_answer: true
  skip_voting: true
  skip_final_presentation: true
  final_answer_strategy: synthesize
  presenter_agent: agent_a
  max_orchestration_restarts: 2
  on_agent_failure: park
  budget: {max_cost_usd: 1.5, max_total_tokens: 1000}
  coordination:
    checklist_criteria_inline: [{text: Is it right?, category: primary}]
    task_decomposer: {enabled: false}
timeout_settings:
  orchestrator_timeout_seconds: 60
  initial_round_timeout_seconds: 600
  subsequent_round_timeout_seconds: 300
  round_timeout_grace_seconds: 0
  outage_seconds: 30
  away_seconds: 5
  client_tools_timeout_seconds: 900
`)
	want := Default()
	want.Agents = []Agent{{
		ID: "agent_a", Backend: Backend{Type: Offline}, Tools: builtinTools{Shell: ShellOn},
		MCPServers: []MCPServer{
			{Name: "browser"},
			{Name: "my-files_2", Command: "server", Args: []string{"-x", ""}, Env: map[string]string{"LEVEL": "debug", "TOKEN": "${MY_TOKEN}"}},
			{Name: "web", URL: "https://h/mcp?v=1"},
		},
	}}
	want.Orchestrator = Orchestrator{
		CoordinationMode: "voting", Pacing: "continuous", UpdateMode: "restart", OnSplit: "plurality",
		MaxRevotes: 3, MaxStepsPerAgent: 4, MaxModelCallsPerStep: 50, ThinkFirst: "on", VotingSensitivity: "checklist_gated",
		MaxMidstreamInjectionsPerRound: 1, DeferPeerUpdatesUntilRestart: true,
		AllowMidstreamPeerUpdatesBeforeChecklistSubmit: new(true),
		MaxNewAnswersPerAgent:                          new(2), MaxNewAnswersGlobal: new(5),
		DeferVotingUntilAllAnswered: true, AnswerNoveltyRequirement: "strict",
		MaxChecklistCallsPerRound: 2, ChecklistFirstAnswer: true,
		SkipVoting: true, SkipFinalPresentation: true, FinalAnswerStrategy: "synthesize",
		PresenterAgent: new("agent_a"), MaxOrchestrationRestarts: 2, OnAgentFailure: "park",
		MinActiveAgents: 1, MaxQuestions: 3, AskTimeoutSeconds: 86400, OnAskTimeout: "park", PeerVisibility: "all", TextAnswers: "auto", ShowAgreement: true,
		DecideWhen: "all", QuorumGraceSeconds: 30, TeamSize: teamSize{Step: 1}, Ballot: "text",
		Budget:       budget{MaxCostUSD: new(1.5), MaxTotalTokens: new(1000)},
		Coordination: want.Orchestrator.Coordination,
	}
	prepared := &want.Orchestrator.Coordination
	prepared.ChecklistCriteriaInline, prepared.TaskDecomposer.Enabled = Criteria{{Text: "Is it right?", Category: "primary"}}, false
	want.Timeouts = timeouts{
		OutageSeconds: 30, AwaySeconds: 5, ClientToolsTimeoutSeconds: 900,
		OrchestratorTimeoutSeconds: 60, InitialRoundTimeoutSeconds: new(600), SubsequentRoundTimeoutSeconds: new(300),
	}
	require.Equal(t, want, team, "a step may have more time than the session, and no grace")
}

func TestParse_setsKeysOfAgreement(t *testing.T) {
	t.Parallel()
	team := parse(t, `
agents: [{id: agent_a, backend: {type: offline}}, {id: agent_b, backend: {type: offline}}]
orchestrator: {min_active_agents: 2, peer_visibility: none, text_answers: never, allow_solo_refinement: true, agree: exact, show_agreement: false}
`)
	want := Default().Orchestrator
	want.MinActiveAgents, want.PeerVisibility, want.TextAnswers = 2, "none", "never"
	want.AllowSoloRefinement, want.Agree, want.ShowAgreement = true, "exact", false
	require.Equal(t, want, team.Orchestrator)
}

func TestParse_setsKeysOfDecidingSooner(t *testing.T) {
	t.Parallel()
	team := parse(t, `
agents: [{id: agent_a, backend: {type: offline}}, {id: agent_b, backend: {type: offline}}]
orchestrator: {max_rounds: 2, decide_when: quorum, quorum_grace_seconds: 0, team_size: {start: 2, step: 3}, early_agreement: true, ballot_confidence: true, act_when: {min_support: 0.6}}
`)
	want := Default().Orchestrator
	want.MaxRounds, want.DecideWhen, want.QuorumGraceSeconds = new(2), "quorum", 0
	want.TeamSize, want.EarlyAgreement = teamSize{Start: new(2), Step: 3}, true
	want.BallotConfidence, want.ActWhen.MinSupport = true, new(0.6)
	require.Equal(t, want, team.Orchestrator)
}

// Seed 001: "coordination_mode: voting                 # or decomposition".
func TestParse_acceptsDecomposition(t *testing.T) {
	t.Parallel()
	team := parse(t, `
agents:
  - {id: agent_a, backend: {type: offline}, subtask: The server.}
  - {id: agent_b, backend: {type: offline}, subtask: The client.}
orchestrator:
  coordination_mode: decomposition
  presenter_agent: agent_a
  # Keys of voting are accepted, so that the mode can be tried by one line.
  on_split: fail
  max_revotes: 3
  skip_voting: true
  skip_final_presentation: true
  defer_voting_until_all_answered: true
`)
	require.Equal(t, coordination.Decomposition, team.Orchestrator.CoordinationMode)
	require.Equal(t, []string{"The server.", "The client."}, []string{team.Agents[0].Subtask, team.Agents[1].Subtask})
	require.Equal(t, new("agent_a"), team.Orchestrator.PresenterAgent)
}

func TestParse_readsEquivalentNotationsAlike(t *testing.T) {
	t.Parallel()
	want := parse(t, "agents:\n  - {id: agent_a, backend: {model: m, params: {seed: 7}}}\n")
	for name, text := range map[string]string{
		"JSON":                         `{"agents": [{"id": "agent_a", "backend": {"model": "m", "params": {"seed": 7}}}]}`,
		"JSON with tabs":               "{\t\"agents\":\n\t[{\"id\":\t\"agent_a\", \"backend\": {\"model\": \"m\", \"params\": {\"seed\": 7.0}}}]}",
		"JSON indented with tabs":      "{\n\t\"agents\": [\n\t\t{\n\t\t\t\"id\": \"agent_a\",\n\t\t\t\"backend\": {\"model\": \"m\", \"params\": {\"seed\": 7}}\n\t\t}\n\t]\n}",
		"JSON keys on lines":           "{\"agents\"\n:\n[{\"id\"\n:\"agent_a\",\"backend\":{\"model\":\"m\",\"params\":{\"seed\":7}}}]}",
		"one agent":                    "agent: {id: agent_a, backend: {model: m, params: {seed: 7}}}",
		"a byte order mark":            "\ufeffagents:\n  - {id: agent_a, backend: {model: m, params: {seed: 7}}}\n",
		"Windows line ends":            "agents:\r\n  - id: agent_a\r\n    backend: {model: m, params: {seed: 7}}\r\n",
		"a document mark":              "---\nagents:\n  - {id: agent_a, backend: {model: m, params: {seed: 7}}}\n...\n",
		"an anchor and a merge key":    "agents:\n  - id: agent_a\n    backend: {<<: {model: x, params: &p {seed: 7}}, model: m, params: *p}\n",
		"sections without content":     "agents:\n  - {id: agent_a, backend: {model: m, params: {seed: 7}}, tools: , mcp_servers: }\norchestrator:\n  budget:\ntimeout_settings:\n",
		"optional strings set to null": "agents:\n  - {id: agent_a, backend: {model: m, base_url: null, provider: ~, params: {seed: 7}}, system_message: }\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := parse(t, text)
			require.Equal(t, want, got)
			require.Equal(t, want.Hash(), got.Hash())
		})
	}
}

func TestParse_keepsStringsAsWritten(t *testing.T) {
	t.Parallel()
	team := parse(t, `
agents:
  - id: agent_a
    backend:
      model: 0x10
      params: {a: "0x10", b: 0x10, c: 012, d: 1_000, e: "7", f: .inf, g: 2026-01-01, h: yes, i: !!str 5}
    system_message: 4.10
`)
	require.Equal(t, "0x10", team.Agents[0].Backend.Model)
	require.Equal(t, "4.10", team.Agents[0].SystemMessage)
	require.Equal(t, map[string]any{
		"a": "0x10", "b": "0x10", "c": "012", "d": "1_000", "e": "7", "f": ".inf", "g": "2026-01-01", "h": "yes", "i": "5",
	}, team.Agents[0].Backend.Params)
}

func TestParse_keepsParams(t *testing.T) {
	t.Parallel()
	team := parse(t, `{"agent": {"id": "a", "backend": {"model": "m", "params": {
		"big": 9007199254740993, "bigger": 1e21, "whole": 1.0, "zero": -0, "list": [1, 0.5, null, true, "\ud83d\ude00", {}], "none": null}}}}`)
	require.Equal(t, map[string]any{
		"big": int64(9007199254740993), "bigger": 1e21, "whole": int64(1), "zero": int64(0),
		"list": []any{int64(1), 0.5, nil, true, "😀", map[string]any{}}, "none": nil,
	}, team.Agents[0].Backend.Params)
}

func TestParse_keepsCharactersThatYAMLRefusesInJSON(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`\ud83d\ude00\u0041`:              "😀A",
		`\\ud83d \ud83d`:                  "\\ud83d \ufffd",
		`\u0000\u007f\u2028`:              "\x00\x7f\u2028",
		"\x7f\u0085\u2028\u2029\ufeff":    "\x7f\u0085\u2028\u2029\ufeff",
		"a\tb: c # d, *e \uffff":          "a\tb: c # d, *e \uffff",
		`\"\/\b\f\n\r\t \u003c\u0026`:     "\"/\b\f\n\r\t <&",
		strings.Repeat(`\"`, 2000) + " :": strings.Repeat(`"`, 2000) + " :",
	} {
		if strings.Contains(text, "\t") {
			text = strings.ReplaceAll(text, "\t", `\t`)
		}
		team := parse(t, `{"agent": {"id": "a", "backend": {"type": "offline"}, "system_message": "`+text+`"}}`)
		require.Equal(t, want, team.Agents[0].SystemMessage)
		canonical, err := team.Canonical()
		require.NoError(t, err)
		require.Equal(t, team, parse(t, string(canonical)))
	}
}

func TestParse_acceptsNamedProvidersOnACluster(t *testing.T) {
	t.Parallel()
	_, err := Parse("input config", []byte(`{"agents": [
		{"id": "a", "backend": {"provider": "openai", "model": "m"}}, {"id": "b", "backend": {"type": "offline"}}]}`), Cluster)
	require.NoError(t, err)
	canonical, err := Default().Canonical()
	require.NoError(t, err)
	_, err = Parse("input config", canonical, Cluster)
	require.NoError(t, err, "the built-in team names no address or key")
}

func TestOffline_replacesEveryBackend(t *testing.T) {
	t.Parallel()
	team := parse(t, contract)
	offline := team.Offline()
	require.Equal(t, Backend{Type: Offline}, offline.Agents[0].Backend)
	require.Equal(t, "Be brief.", offline.Agents[0].SystemMessage)
	require.Equal(t, "gpt-5.2", team.Agents[0].Backend.Model, "the receiver is unchanged")
}

func TestAgent_findsByID(t *testing.T) {
	t.Parallel()
	agent, ok := Default().Agent("agent_b")
	require.True(t, ok)
	require.Equal(t, "agent_b", agent.ID)
	_, ok = Default().Agent("agent_d")
	require.False(t, ok)
}

func TestStarter_equalsDefaultWithAShell(t *testing.T) {
	t.Parallel()
	require.Equal(t, Default().WithShell(AutoShell), parse(t, string(Starter(nil))))
}

// A starter file for chosen models keeps its comments.
func TestStarter_ofAgents(t *testing.T) {
	t.Parallel()
	team := TeamOf([]Backend{{Type: "ollama", Model: "llama3.2:3b"}, {Type: OpenAI, Model: `a "b"`}, {Type: "groq", Model: "true"}})
	team.Agents[0].Tools = builtinTools{Files: false, Shell: ShellOn}
	text := string(Starter(team.Agents))
	require.Equal(t, team, parse(t, text))
	require.Equal(t, strings.Count(string(Starter(nil)), "#"), strings.Count(text, "#"), "all comments")
}

func TestStarter_hasValidSuggestions(t *testing.T) {
	t.Parallel()
	suggestion := regexp.MustCompile(`(?m)^( +)# ([a-z_]+: .+|[a-z_]+:|  .+)$`)
	text := suggestion.ReplaceAllString(string(Starter(nil)), "$1$2")
	team := parse(t, text)

	want := Default().WithShell(AutoShell)
	want.Agents[0].Backend.BaseURL, want.Agents[0].Backend.APIKeyEnv = "http://127.0.0.1:11434/v1", "MY_SERVER_API_KEY"
	want.Agents[0].Backend.Params = map[string]any{"temperature": 0.7}
	want.Agents[0].Backend.ContextWindow, want.Agents[0].Backend.SilentTimeoutSeconds = new(32768), new(600)
	want.Agents[0].Backend.PricePerMillion = Price{Input: new(0.0), Output: new(0.0)}
	want.Agents[0].Backend.MaxConcurrentCalls = new(1)
	want.Agents[0].SystemMessage = "You are a careful reviewer."
	want.Agents[0].MCPServers = []MCPServer{
		{Name: "browser", Command: "/opt/mcp/bin/browser-mcp", Args: []string{"--headless"}},
		{Name: "tickets", Command: "tickets-mcp", Env: map[string]string{"TICKETS_TOKEN": "${TICKETS_TOKEN}"}},
		{Name: "docs", URL: "https://docs.example.com/mcp"},
	}
	want.Orchestrator.MaxNewAnswersPerAgent = new(3)
	want.Orchestrator.PresenterAgent = new("agent_b")
	want.Orchestrator.Budget = budget{MaxCostUSD: new(2.5), MaxTotalTokens: new(500_000)}
	want.Orchestrator.Coordination.CriteriaPreset = new("code")
	want.Timeouts.InitialRoundTimeoutSeconds, want.Timeouts.SubsequentRoundTimeoutSeconds = new(900), new(600)
	require.Equal(t, want, team, "no prose is parsed as a suggestion")
}

func TestParse_refusesTextThatIsNotUTF8(t *testing.T) {
	t.Parallel()
	for text, at := range map[string]string{"agents: \xff\n": "1:9", "a: \uFFFD é\n  \xc3\x28": "2:3"} {
		_, err := Parse("team.yaml", []byte(text), Local)
		require.EqualError(t, err, "team.yaml:"+at+": not UTF-8 text; save the file in UTF-8")
	}
}

func TestParse_boundsItsInput(t *testing.T) {
	t.Parallel()
	_, err := Parse("team.yaml", []byte("agents: "+strings.Repeat(" ", 1<<20)), Local)
	require.ErrorContains(t, err, "at most 1048576 are accepted")

	_, err = Parse("team.yaml", []byte(`{"a": [`+strings.Repeat("1,", 20_000)+`1]}`), Local)
	require.ErrorContains(t, err, "more than 10000 values")

	_, err = Parse("team.yaml", []byte(`{"a": `+strings.Repeat("[", 60)+strings.Repeat("]", 60)+`}`), Local)
	require.ErrorContains(t, err, "nested more than 50 levels")
}

func TestProblems_areCountedBeyondTheLimit(t *testing.T) {
	t.Parallel()
	_, err := Parse("team.yaml", []byte("agents:\n"+strings.Repeat("  - 1\n", 60)), Local)
	problems, ok := errors.AsType[Problems](err)
	require.True(t, ok)
	require.Len(t, problems, 61, "60 invalid agents, and their number")
	require.Len(t, strings.Split(err.Error(), "\n"), 51)
	require.Contains(t, err.Error(), "and 11 more problems")
}

func TestCanonical_isReadBackUnchanged(t *testing.T) {
	t.Parallel()
	for name, team := range map[string]Team{
		"built in": Default(), "offline": Default().Offline(), "contract": parse(t, contract),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			canonical, err := team.Canonical()
			require.NoError(t, err)
			again, err := Parse("canonical", canonical, Local)
			require.NoError(t, err)
			require.Equal(t, team, again)
			require.Equal(t, team.Hash(), again.Hash())
		})
	}
}

func TestHash_ignoresOrderAndDefaults(t *testing.T) {
	t.Parallel()
	// Sessions store this hash. If the canonical form changed, sessions that run during an upgrade
	// of the worker would fail.
	require.Equal(t, "6ecb4c24d70109d7356e355cec3c4cdecbd30eacb92380393febdfb39793c5c1", Default().Hash())

	base := parse(t, "agents: [{id: a, backend: {model: m, params: {x: 1, y: 2}}}]")
	require.Equal(t, base.Hash(), parse(t, "orchestrator: {max_revotes: 1}\nagents: [{backend: {params: {y: 2, x: 1}, model: m}, id: a}]").Hash(),
		"order and defaults do not count")
	for _, different := range []string{
		"agents: [{id: b, backend: {model: m, params: {x: 1, y: 2}}}]",
		"agents: [{id: a, backend: {model: m, params: {x: 1, y: 3}}}]",
		"agents: [{id: a, backend: {model: m, params: {x: 1, y: 2}}}]\norchestrator: {max_revotes: 2}",
	} {
		require.NotEqual(t, base.Hash(), parse(t, different).Hash(), different)
	}
}

func TestHash_isEmptyWithoutACanonicalForm(t *testing.T) {
	t.Parallel()
	team := Default()
	team.Agents[0].Backend.Params = map[string]any{"f": func() {}}
	_, err := team.Canonical()
	require.Error(t, err)
	require.Empty(t, team.Hash())
}

// Keys of later versions do not change the hash of a team that does not set them.
func TestHash_keysOfLaterVersions(t *testing.T) {
	t.Parallel()
	canonical, err := Default().Canonical()
	require.NoError(t, err)
	for _, key := range []string{
		"max_model_calls_per_step", "min_active_agents", "peer_visibility", "text_answers", "allow_solo_refinement", "agree", "show_agreement",
		"max_rounds", "decide_when", "quorum_grace_seconds", "team_size", "early_agreement", "ballot", "ballot_confidence", "show_checks", "act_when",
	} {
		require.NotContains(t, string(canonical), `"`+key+`"`)
	}
	limited := Default()
	limited.Orchestrator.MaxModelCallsPerStep = 300
	limited.Orchestrator.ShowAgreement, limited.Orchestrator.PeerVisibility = false, "none"
	limited.Orchestrator.QuorumGraceSeconds, limited.Orchestrator.TeamSize = 0, teamSize{Start: new(2), Step: 1}
	limited.Orchestrator.ActWhen.MinSupport = new(0.5)
	canonical, err = limited.Canonical()
	require.NoError(t, err)
	require.Contains(t, string(canonical), `"max_model_calls_per_step":300`)
	again, err := Parse("again", canonical, Local)
	require.NoError(t, err)
	require.Equal(t, limited, again)
}

// A shell that a worker decides about is a third value of a key that was a boolean: files that have a boolean
// keep their hash.
func TestShell(t *testing.T) {
	t.Parallel()
	of := func(value string) Team {
		return parse(t, "agent: {id: a, backend: {model: m}, tools: {shell: "+value+"}}")
	}
	for value, want := range map[string]Shell{"true": ShellOn, "false": ShellOff, "auto": AutoShell, `"auto"`: AutoShell} {
		team := of(value)
		require.Equal(t, want, team.Agents[0].Tools.Shell, value)
		require.Equal(t, want == ShellOn, team.Agents[0].Tools.Shell.On(), value)
		canonical, err := team.Canonical()
		require.NoError(t, err)
		require.Contains(t, strings.ReplaceAll(string(canonical), `"auto"`, "auto"), `"tools":{"files":true,"shell":`+strings.Trim(value, `"`)+"}")
		require.Equal(t, team, parse(t, string(canonical)))
	}
	default3 := Default().WithShell(AutoShell)
	require.Equal(t, AutoShell, default3.Agents[2].Tools.Shell)
	require.Equal(t, ShellOff, Default().Agents[2].Tools.Shell)
	require.Equal(t, ShellOff, default3.Offline().Agents[0].Tools.Shell, "the built-in model runs nothing")
	_, err := Parse("t.yaml", []byte("agent: {id: a, backend: {model: m}, tools: {shell: automatic}}"), Local)
	require.ErrorContains(t, err, `unknown value "automatic"; did you mean`)
}
