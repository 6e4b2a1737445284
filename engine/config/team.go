package config

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"sync"

	"conclave/engine/approval"
	"conclave/engine/coordination"
	"conclave/engine/llm"
)

// Three types of Backend; backendTypes has the others.
const (
	OpenAI   = "openai"   // any server of the Chat Completions API
	Offline  = "offline"  // the built-in deterministic model: no key, no network
	Recorded = "recorded" // answers that real models have given before, from a file
)

// The default model, and sizes of teams.
const (
	defaultModel = "gpt-5.2" // default model of the built-in team
	MaxAgents    = 26        // members of the largest team
	usualSize    = 3         // members of the built-in team, and of a team of one model
)

// Team is the configuration of a team.
//
// The tags of its fields, here and below, specify the keys: json is the key; default its
// default (without one: absent, or null for a pointer); enum its choices; min and max its
// range; shorthand the key that a plain string sets; single a list that may be written as its
// only item; doc its meaning. A pointer's key may be null. Durations are in whole seconds.
type Team struct {
	Agents       []Agent         `json:"agents" doc:"The members of the team, 1 to 26."`
	Orchestrator Orchestrator    `json:"orchestrator" doc:"How the team comes to a decision."`
	Timeouts     timeouts        `json:"timeout_settings" doc:"Time limits, in seconds."`
	AnswerSchema *llm.DataSchema `json:"answer_schema,omitempty" doc:"A JSON Schema that answers fit, written out here: an answer is then data, with optional words beside them. Arrays with x-conclave-set: true are compared as sets, values with x-conclave-ignore: true not at all. In decomposition it is that of the final answer. null: answers are texts."`
}

// Agent is one member of a team.
type Agent struct {
	ID            string       `json:"id" doc:"The agent's name, unique in the team: a lower-case letter, then up to 31 lower-case letters, digits, _ or -. Models never see it."`
	Backend       Backend      `json:"backend" doc:"The model behind the agent."`
	Skill         *float64     `json:"skill,omitempty" min:"0" max:"1" doc:"How often its answers are right, from 0 to 1: a tie goes to the agent of greater skill, in place of the one configured first. conclave eval report --write-skill measures it. null: none."`
	SystemMessage string       `json:"system_message,omitempty" doc:"The agent's own instructions, put after the material that all agents share."`
	Subtask       string       `json:"subtask,omitempty" doc:"The agent's part of the work in decomposition mode, refused elsewhere. If no agent has one, the task decomposer makes them."`
	MCPServers    []MCPServer  `json:"mcp_servers,omitempty" shorthand:"name" doc:"MCP servers whose tools the agent gets: names from the worker's configuration, or, in files for local runs, definitions."`
	Tools         builtinTools `json:"tools" doc:"The built-in tools the agent gets."`
}

// Backend is the model behind an agent. Without Provider and BaseURL, its address is that of
// its type; for openai, the worker's OPENAI_BASE_URL takes precedence if set.
type Backend struct {
	Type      string         `json:"type" default:"openai" enum:"openai,anthropic,gemini,openrouter,groq,mistral,xai,deepseek,together,ollama,vllm,sglang,lmstudio,llamacpp,azure,offline,recorded" doc:"openai is any server of the Chat Completions API; the other names stand for a service or a server program with its address and its key variable; offline is the built-in deterministic model, which needs neither key nor network; recorded answers with what a model has answered before, from the file params.data."`
	Provider  string         `json:"provider,omitempty" doc:"A provider of the worker's configuration."`
	Model     string         `json:"model,omitempty" doc:"The model's name as the server knows it; required except for offline and recorded."`
	BaseURL   string         `json:"base_url,omitempty" doc:"Address of the server, such as http://127.0.0.1:11434/v1. Only in files for local runs."`
	APIKeyEnv string         `json:"api_key_env,omitempty" doc:"Name of the environment variable that holds the API key, ending in _KEY or _TOKEN. Only in files for local runs. A base_url of its own gets no key unless one is named here."`
	Wire      string         `json:"wire,omitempty" enum:"chat,responses,messages" doc:"The form of requests: chat is Chat Completions, responses is OpenAI's, messages is Anthropic's. The default is the service's own where the backend has no address or provider of its own, else chat."`
	Params    map[string]any `json:"params,omitempty" doc:"Parameters that are passed through to the API, such as temperature."`
	Images    string         `json:"images,omitempty" enum:"auto,true,false" booleans:"true,false" doc:"Whether the model is shown pictures. auto, the default: until its server refuses them; then they are described. true: a refusal is an error. false: they are described."`

	CacheStagger bool `json:"cache_stagger,omitempty" doc:"Whether members whose prompts begin alike wait, at most two seconds, until the reply to the first of them has begun, because only then the service's cache has that beginning."`

	// Settings of this model that override those of its provider; nil, or the zero Price,
	// overrides nothing.
	ContextWindow        *int  `json:"context_window,omitempty" min:"256" max:"1000000000" doc:"How many tokens a conversation can have, the reply included. Only in files for local runs."`
	PricePerMillion      Price `json:"price_per_million,omitzero" doc:"What a million tokens cost, in US dollars; 0 is a price. Only in files for local runs."`
	SilentTimeoutSeconds *int  `json:"silent_timeout_seconds,omitempty" min:"1" max:"86400" doc:"How long the server may be silent before a reply begins, the time in its own queue included; null: 600. Only in files for local runs."`
	MaxConcurrentCalls   *int  `json:"max_concurrent_calls,omitempty" min:"1" max:"10000" doc:"How many calls this process makes to the model at a time; null: any number. Only in files for local runs."`
}

// builtinTools selects the built-in tools of an agent.
type builtinTools struct {
	Files bool  `json:"files" default:"true" doc:"Read, write, edit, copy, list and search files in the agent's workspace."`
	Shell Shell `json:"shell" default:"false" enum:"true,false,auto" booleans:"true,false" doc:"Run commands in the agent's workspace, confined by the worker's sandbox: no network, nothing outside the workspace. auto: where the worker that prepares the session confines them."`
}

// Shell says whether an agent can run commands.
type Shell string

// The values of Shell. AutoShell stands for one of the others, as the worker that prepares a run decides.
const (
	ShellOn   Shell = "true"
	ShellOff  Shell = "false"
	AutoShell Shell = "auto"
)

// On reports whether the agent can run commands. It is false for AutoShell.
func (s Shell) On() bool { return s == ShellOn }

// MarshalJSON writes a boolean except for AutoShell, so that the hashes of older files do not change.
func (s Shell) MarshalJSON() ([]byte, error) {
	if s == AutoShell {
		return json.Marshal(string(s))
	}
	return json.Marshal(s.On())
}

// WithShell returns the team with the same shell for every agent.
func (t Team) WithShell(s Shell) Team {
	t.Agents = slices.Clone(t.Agents)
	for i := range t.Agents {
		t.Agents[i].Tools.Shell = s
	}
	return t
}

// Orchestrator configures how a team comes to a decision.
type Orchestrator struct {
	CoordinationMode                               string          `json:"coordination_mode" default:"voting" enum:"voting,decomposition" doc:"voting: every agent answers the query and the team votes; decomposition: every agent owns a part of the work, its subtask, and says when it is done; a presenter joins the parts."`
	Pacing                                         string          `json:"pacing" default:"rounds" enum:"rounds,continuous" doc:"rounds: a wave of steps waits for the one before; continuous: an agent goes on as soon as it has something new to see."`
	UpdateMode                                     string          `json:"update_mode" default:"inject" enum:"inject,restart" doc:"How an agent at work learns of new answers: inject shows them at its next safe point, restart ends its step there and begins it again."`
	OnSplit                                        string          `json:"on_split" default:"revote" enum:"revote,plurality,fail" doc:"When all votes are fresh and no answer has the majority: revote repeats the vote, plurality takes the answer with most votes, fail fails the session."`
	MaxRevotes                                     int             `json:"max_revotes" default:"1" min:"0" doc:"How often a session repeats a split vote before the plurality decides."`
	MaxStepsPerAgent                               int             `json:"max_steps_per_agent" default:"12" min:"1" doc:"How many steps an agent may take; at the limit the session decides with the answers it has."`
	MaxRounds                                      *int            `json:"max_rounds,omitempty" min:"1" doc:"How many rounds the team may take; in the last one an agent with an answer can only vote, and 1 decides by the first answers alone. With continuous pacing each agent counts its own rounds. They are counted anew when an agent joins a staged team. null: any number."`
	MaxModelCallsPerStep                           int             `json:"max_model_calls_per_step,omitzero" default:"200" min:"1" doc:"How many model calls a step may make; at 90 percent its agent is asked to finish."`
	ThinkFirst                                     string          `json:"think_first,omitzero" default:"auto" enum:"auto,on,off" doc:"Whether prompts ask agents to work out a reply in text before they call a tool. auto: models that are not known to reason by themselves."`
	TextAnswers                                    string          `json:"text_answers,omitzero" default:"auto" enum:"auto,always,never" doc:"Whether text without a tool call counts. auto: where only an answer is open, a model that called nothing is asked for plain text, which is then its answer; always: it counts unasked, and an agent without other tools is offered none where a single action is open; never: an answer is always a call. Except with never, a reply of one label alone is a vote."`
	VotingSensitivity                              string          `json:"voting_sensitivity" default:"lenient" enum:"lenient,balanced,strict,checklist_gated" doc:"When an agent votes instead of improving on the answers. lenient: the best answer does the task; balanced: it does all of the task, and nothing substantial is left to improve; strict: a hard search for improvements found nothing that matters; checklist_gated: a scored checklist of criteria decides."`
	DisableInjection                               bool            `json:"disable_injection" default:"false" doc:"Do not show new answers to an agent at work: it sees them at its next step. peer_visibility none hides them from its next steps as well."`
	PeerVisibility                                 string          `json:"peer_visibility,omitzero" default:"all" enum:"all,none" doc:"none: every agent first refines its own answer alone, until it votes for it or has given max_new_answers_per_agent; when all have, everybody is shown all answers and votes. No effect in decomposition."`
	AllowSoloRefinement                            bool            `json:"allow_solo_refinement,omitzero" default:"false" doc:"With continuous pacing, let an agent that has nothing new to see work on at its answer, as far ahead as fairness_lead_cap_answers allows."`
	FairnessEnabled                                bool            `json:"fairness_enabled" default:"true" doc:"Keep fast agents from running ahead of slow ones, and limit updates: the two keys below hold only with it."`
	FairnessLeadCapAnswers                         int             `json:"fairness_lead_cap_answers" default:"2" min:"0" doc:"How many answers an agent may be ahead of the slowest one still at work, counting the answer it is about to give; 0: never ahead. First answers are exempt."`
	MaxMidstreamInjectionsPerRound                 int             `json:"max_midstream_injections_per_round" default:"2" min:"1" doc:"How many new answers of others a step receives at most while it works."`
	DeferPeerUpdatesUntilRestart                   bool            `json:"defer_peer_updates_until_restart" default:"false" doc:"Keep the new answers of others for an agent's next step."`
	AllowMidstreamPeerUpdatesBeforeChecklistSubmit *bool           `json:"allow_midstream_peer_updates_before_checklist_submit" doc:"With checklist_gated and defer_peer_updates_until_restart: true still shows new answers to an agent at work until its first accepted checklist; null: as false."`
	MaxNewAnswersPerAgent                          *int            `json:"max_new_answers_per_agent" min:"1" doc:"How many answers an agent may give; then it votes. In decomposition: how many in a row without anything new from the others; then it is done. null: any number."`
	MaxNewAnswersGlobal                            *int            `json:"max_new_answers_global" min:"1" doc:"How many answers the team may give together; then it votes, or in decomposition is done. null: any number."`
	DeferVotingUntilAllAnswered                    bool            `json:"defer_voting_until_all_answered" default:"false" doc:"Offer no vote before every active agent has answered."`
	AnswerNoveltyRequirement                       string          `json:"answer_novelty_requirement" default:"lenient" enum:"lenient,balanced,strict" doc:"How different a new answer has to be from the existing ones. lenient: not the same text with the same files; balanced: at most 70 percent of the words in common; strict: at most 50 percent."`
	MaxChecklistCallsPerRound                      int             `json:"max_checklist_calls_per_round" default:"1" min:"1" doc:"How many accepted checklists a step may submit. Only with checklist_gated."`
	ChecklistFirstAnswer                           bool            `json:"checklist_first_answer" default:"false" doc:"Offer the checklist before the first answer too. Only with checklist_gated."`
	Agree                                          string          `json:"agree,omitzero" enum:"exact,normalized,judge,data" doc:"When two answers are equal. The default is data with an answer_schema, and else normalized. data: the same values, field by field, where numbers are decimals and texts are in NFC; files are not compared; without data as normalized. normalized: the same after NFKC and case folding, with white space collapsed and without closing punctuation; exact: byte for byte. Where all have a last line ANSWER: …, that line alone is compared, otherwise the files, too. judge: the model of agree_judge says so, for answers of sessions whose files are equal; in step mode it is normalized. Votes for equal answers that were given independently count together where no majority decides."`
	AgreeJudge                                     agreeJudge      `json:"agree_judge,omitzero" doc:"The model that finds equal answers with agree: judge."`
	ShowAgreement                                  bool            `json:"show_agreement" default:"true" doc:"Tell voters which answers are equal, and how many agents gave each."`
	DecideWhen                                     string          `json:"decide_when,omitzero" default:"all" enum:"all,quorum" doc:"all: the team decides when every vote is in; quorum: as soon as more than half of the active agents have voted for one answer and no vote still out can change that. Steps that still run are cancelled, and their answers are not waited for."`
	QuorumGraceSeconds                             int             `json:"quorum_grace_seconds" default:"30" min:"0" max:"31536000" doc:"How long a quorum waits for agents that still work on their first answer."`
	TeamSize                                       teamSize        `json:"team_size,omitzero" doc:"How many agents begin, and how many join when no majority agrees. No effect in decomposition."`
	EarlyAgreement                                 bool            `json:"early_agreement,omitzero" default:"false" doc:"When more than half of the agents have given equal first answers, decide for it without a vote. No effect in decomposition and with peer_visibility none."`
	Ballot                                         string          `json:"ballot,omitzero" default:"text" enum:"text,checks_shown,checks_break_ties,checks_decide" doc:"The part of checks in a vote. text: none; checks_shown: voters are shown which answers pass them; checks_break_ties: they decide between answers with as many votes; checks_decide: the votes decide only between answers that pass as many."`
	BallotConfidence                               bool            `json:"ballot_confidence,omitzero" default:"false" doc:"Let voters say how sure they are, from 0 to 1. Their confidence is reported and decides nothing."`
	ShowChecks                                     bool            `json:"show_checks,omitzero" default:"false" doc:"Show the checks of --checks to the agents."`
	ActWhen                                        actWhen         `json:"act_when,omitzero" doc:"When a decision is good enough to act on."`
	SkipVoting                                     bool            `json:"skip_voting" default:"false" doc:"End when every active agent has answered, without a vote. No effect in decomposition, which has no vote."`
	SkipFinalPresentation                          bool            `json:"skip_final_presentation" default:"false" doc:"Make no presenting step where an answer can stand as it is: with winner_reuse, in decomposition too, and with skip_voting. Otherwise winner_present and synthesize still present."`
	FinalAnswerStrategy                            string          `json:"final_answer_strategy" default:"winner_reuse" enum:"winner_reuse,winner_present,synthesize" doc:"How the final answer is made: winner_reuse takes the winning answer as it is, winner_present has its author present it, synthesize joins it with the strengths of the others. Decomposition always joins the parts, unless skip_final_presentation is set. With synthesize, max_new_answers_per_agent 1 and voting not deferred, several agents answer once and nobody votes."`
	PresenterAgent                                 *string         `json:"presenter_agent" doc:"The agent that presents the final answer where it is presented, and judges it where it is judged; where nobody votes, its answer stands. null: the winner; in decomposition the agent configured last; elsewhere without a vote the first one with an answer."`
	MaxOrchestrationRestarts                       int             `json:"max_orchestration_restarts" default:"0" min:"0" doc:"How often the team may begin again after judging its final answer; 0: the answer is not judged."`
	OnAgentFailure                                 string          `json:"on_agent_failure" default:"continue" enum:"continue,park,fail" doc:"When an agent fails: continue: the rest decide; park: the session waits for a person to retry, finish or cancel it; fail: the session fails."`
	MinActiveAgents                                int             `json:"min_active_agents,omitzero" default:"1" min:"1" doc:"With fewer active agents nothing is decided by vote: the session parks where on_agent_failure is park, otherwise it fails."`
	AskPerson                                      bool            `json:"ask_person,omitzero" default:"false" doc:"Give the agents the tool ask_person, with which a step asks a person and goes on when the answer is there."`
	MaxQuestions                                   int             `json:"max_questions,omitzero" default:"3" min:"1" max:"1000" doc:"How many questions of ask_person a session may ask; equal ones that are open at the same time are one."`
	AskTimeoutSeconds                              int             `json:"ask_timeout_seconds,omitzero" default:"86400" min:"1" max:"31536000" doc:"How long a question waits for a person."`
	OnAskTimeout                                   string          `json:"on_ask_timeout,omitzero" default:"park" enum:"deny,park" doc:"What happens then. park: the session waits on, and begins nothing else; deny: a call is refused, and a question gets the reply that nobody answered."`
	Approvals                                      []approval.Rule `json:"approvals,omitempty" doc:"Which tool calls run, wait for a person, or are refused: the first rule that fits decides. What no rule names is allowed, except calls of MCP tools that their server does not mark read-only: those are asked about once there is a rule. A rule is a gate, not a wall: what a script starts is not seen."`
	Budget                                         budget          `json:"budget" doc:"Spending limits of a session; at a limit it decides with the answers it has."`
	Coordination                                   preparation     `json:"coordination" doc:"Preparations before the agents begin, and the evaluation of rounds."`
}

// teamSize configures how a staged team grows.
type teamSize struct {
	Start *int `json:"start" min:"1" doc:"How many agents begin, in configured order; null: all."`
	Step  int  `json:"step" default:"1" min:"1" doc:"How many join whenever no majority agrees."`
}

// actWhen is the support that a decision needs.
type actWhen struct {
	MinSupport *float64 `json:"min_support" min:"0" max:"1" doc:"The share of the active agents whose fresh vote the winner needs, from 0 to 1; below it the session ends undecided. null: any."`

	Wrong       *float64                  `json:"wrong,omitempty" min:"0" max:"1" doc:"A promise, which needs calibration: of the decisions on which the team acts at most this share is wrong, with a confidence of 95 %; the others end undecided."`
	Calibration *coordination.Calibration `json:"calibration,omitempty" doc:"The file that conclave eval calibrate has written for this team, or its content."`
}

// budget limits the cost of a session.
type budget struct {
	MaxCostUSD     *float64 `json:"max_cost_usd" min:"0" doc:"US dollars, more than 0; null: no limit. Every model needs a known price."`
	MaxTotalTokens *int     `json:"max_total_tokens" min:"1" doc:"Input and output tokens together; null: no limit."`
}

// timeouts are time limits in seconds.
type timeouts struct {
	OrchestratorTimeoutSeconds    int  `json:"orchestrator_timeout_seconds" default:"7200" min:"1" max:"31536000" doc:"How long a session may take, without the time it is paused or parked; then it decides with the answers it has."`
	InitialRoundTimeoutSeconds    *int `json:"initial_round_timeout_seconds" min:"1" max:"31536000" doc:"How long the model and the tools of an agent's first step may take before it is asked to finish; null: no limit of its own."`
	SubsequentRoundTimeoutSeconds *int `json:"subsequent_round_timeout_seconds" min:"1" max:"31536000" doc:"The same for every later step; null: no limit of its own."`
	RoundTimeoutGraceSeconds      int  `json:"round_timeout_grace_seconds" default:"120" min:"0" max:"31536000" doc:"How long a step may go on working after it was asked to finish; then it may only answer, vote or stop. 0: at once."`
	OutageSeconds                 int  `json:"outage_seconds,omitzero" default:"600" min:"1" max:"31536000" doc:"How long a step waits for a model server that is away; then the others go on without its agent, which tries again with every round."`
	AwaySeconds                   int  `json:"away_seconds,omitzero" default:"60" min:"1" max:"31536000" doc:"After how long an outage the others go on without an agent until its model is back, where more than half of the team, and at least min_active_agents, have answered. A call without a byte of a reply counts as an outage after the longer of this and four times the longest call of the session."`
	ClientToolsTimeoutSeconds     int  `json:"client_tools_timeout_seconds,omitzero" default:"3600" min:"1" max:"31536000" doc:"How long a session waits for a caller to return the results of its own tools; then it fails."`
}

// defaultOrchestrator has the defaults, which a team leaves out. Every step compares the hashes of teams.
var defaultOrchestrator = sync.OnceValue(Defaults[Orchestrator])

// MarshalJSON omits the keys of later versions if they have their defaults, as that of
// timeouts does.
func (o Orchestrator) MarshalJSON() ([]byte, error) {
	type plain Orchestrator
	later := struct {
		plain
		ShowAgreement      *bool `json:"show_agreement,omitempty"`
		QuorumGraceSeconds *int  `json:"quorum_grace_seconds,omitempty"`
	}{}
	if !o.ShowAgreement {
		later.ShowAgreement = &o.ShowAgreement
	}
	defaults := defaultOrchestrator()
	if o.QuorumGraceSeconds != defaults.QuorumGraceSeconds {
		later.QuorumGraceSeconds = &o.QuorumGraceSeconds
	}
	omitDefault(&o.DecideWhen, defaults.DecideWhen)
	omitDefault(&o.TeamSize, defaults.TeamSize)
	omitDefault(&o.Ballot, defaults.Ballot)
	omitDefault(&o.ActWhen, defaults.ActWhen)
	omitDefault(&o.MaxModelCallsPerStep, defaults.MaxModelCallsPerStep)
	omitDefault(&o.MinActiveAgents, defaults.MinActiveAgents)
	omitDefault(&o.ThinkFirst, defaults.ThinkFirst)
	omitDefault(&o.TextAnswers, defaults.TextAnswers)
	omitDefault(&o.PeerVisibility, defaults.PeerVisibility)
	omitDefault(&o.MaxQuestions, defaults.MaxQuestions)
	omitDefault(&o.AskTimeoutSeconds, defaults.AskTimeoutSeconds)
	omitDefault(&o.OnAskTimeout, defaults.OnAskTimeout)
	later.plain = plain(o)
	return json.Marshal(later)
}

// omitDefault sets a value to zero, so that it is not written, if it is the default.
func omitDefault[T comparable](value *T, def T) {
	if *value == def {
		*value = *new(T)
	}
}

// MarshalJSON omits the keys of later versions if they have their defaults, so that sessions
// keep their hash while a worker is upgraded.
func (t timeouts) MarshalJSON() ([]byte, error) {
	type plain timeouts
	defaults := Defaults[timeouts]()
	omitDefault(&t.OutageSeconds, defaults.OutageSeconds)
	omitDefault(&t.AwaySeconds, defaults.AwaySeconds)
	omitDefault(&t.ClientToolsTimeoutSeconds, defaults.ClientToolsTimeoutSeconds)
	return json.Marshal(plain(t))
}

// RunsChecks reports whether checks are run against answers.
func (o Orchestrator) RunsChecks() bool {
	return o.Ballot != "text" && o.Ballot != "" && o.CoordinationMode != coordination.Decomposition
}

// WithSchema returns the team with another schema for its answers, which may be empty for its own.
func (t Team) WithSchema(schema json.RawMessage) (Team, error) {
	if len(schema) == 0 || string(schema) == "null" {
		return t, nil
	}
	var err error
	if t.AnswerSchema, err = llm.ReadDataSchema(schema); err != nil {
		err = fmt.Errorf("answer_schema: %w", err)
	} else if t.dividesWithoutPresenter() {
		err = fmt.Errorf("answer_schema: %s; leave orchestrator.skip_final_presentation out of the team", textParts)
	}
	return t, err
}

// textParts is why the answers of a team that divides its work cannot be data.
const textParts = "the parts of divided work are texts, and without a presenter nobody gives data"

func (t Team) dividesWithoutPresenter() bool {
	o := t.Orchestrator
	return o.CoordinationMode == coordination.Decomposition && o.SkipFinalPresentation && len(t.Agents) > 1
}

// Agent returns the agent with the given ID.
func (t Team) Agent(id string) (Agent, bool) {
	i := slices.IndexFunc(t.Agents, func(a Agent) bool { return a.ID == id })
	if i < 0 {
		return Agent{}, false
	}
	return t.Agents[i], true
}

// Default returns the built-in team: agent_a, agent_b and agent_c on the default
// model, everything else at its default.
func Default() Team {
	return TeamOf(slices.Repeat([]Backend{{Type: OpenAI, Model: defaultModel}}, usualSize))
}

// TeamOf returns a team with a member for each backend, agent_a, agent_b and so on, everything else
// at its default. A team has 1 to 26 members.
func TeamOf(backends []Backend) Team {
	t := Defaults[Team]()
	for i, b := range backends {
		a := Defaults[Agent]()
		a.ID, a.Backend = fmt.Sprintf("agent_%c", 'a'+i), b
		t.Agents = append(t.Agents, a)
	}
	return t
}

// agreeJudge configures the judge of equality.
type agreeJudge struct {
	Backend *Backend `json:"backend" doc:"The model behind the judge; a small one suffices. null: none."`
}

// Judge is the ID of the judge of equality among the agents of Team.Models.
const Judge = "agree_judge"

// Values of agree, which says when answers are equal.
const (
	NormalizedEqual = "normalized" // apart from case, white space and closing punctuation
	JudgedEqual     = "judge"      // if a model says so
	DataEqual       = "data"       // field by field
)

// Agreement returns the value of agree, or its default.
func (t Team) Agreement() string {
	if t.Orchestrator.Agree == "" && t.AnswerSchema != nil {
		return DataEqual
	}
	return cmp.Or(t.Orchestrator.Agree, NormalizedEqual)
}

// JudgeOf returns the judge of equality, an agent without tools, if the team has one.
func (t Team) JudgeOf() (Agent, bool) {
	o := t.Orchestrator
	if o.Agree != JudgedEqual || o.AgreeJudge.Backend == nil {
		return Agent{}, false
	}
	return Agent{ID: Judge, Backend: *o.AgreeJudge.Backend}, true
}

// Offline returns the team with the built-in deterministic model behind every
// agent, without shells and MCP servers, which could need a network.
func (t Team) Offline() Team {
	t.Agents = slices.Clone(t.Agents)
	if t.Orchestrator.AgreeJudge.Backend != nil {
		t.Orchestrator.AgreeJudge.Backend = &Backend{Type: Offline}
	}
	if t.Orchestrator.Coordination.RoundEvaluator.Backend != nil {
		t.Orchestrator.Coordination.RoundEvaluator.Backend = &Backend{Type: Offline}
	}
	for i := range t.Agents {
		t.Agents[i].Backend = Backend{Type: Offline}
		t.Agents[i].MCPServers, t.Agents[i].Tools.Shell = nil, ShellOff
	}
	return t
}

// OfflineKind returns the type of the backends that ask no model server, Offline or Recorded, or "" if
// all agents ask one.
func (t Team) OfflineKind() string {
	for _, kind := range []string{Recorded, Offline} {
		if slices.ContainsFunc(t.Agents, func(a Agent) bool { return a.Backend.Type == kind }) {
			return kind
		}
	}
	return ""
}

// Canonical returns the team as JSON with every default resolved. Equal configurations have
// equal bytes, and Parse reads them back unchanged. It fails only for a Team that did not
// come from Parse and has Params that JSON cannot express.
func (t Team) Canonical() ([]byte, error) { return canonicalJSON("team configuration", t) }

// Hash returns the SHA-256 of the canonical form in hex, or "" if Canonical fails.
func (t Team) Hash() string { return hashJSON(t.Canonical()) }

// Identity returns the hash by which a calibration knows the team. It does not depend on act_when, nor
// on where the models' servers and the recorded answers are.
func (t Team) Identity() string {
	t.Orchestrator.ActWhen = actWhen{}
	t.Agents = slices.Clone(t.Agents)
	for i := range t.Agents {
		t.Agents[i].Backend = *t.Agents[i].Backend.withoutPlace()
	}
	t.Orchestrator.AgreeJudge.Backend = t.Orchestrator.AgreeJudge.Backend.withoutPlace()
	t.Orchestrator.Coordination.RoundEvaluator.Backend = t.Orchestrator.Coordination.RoundEvaluator.Backend.withoutPlace()
	return t.Hash()
}

func (b *Backend) withoutPlace() *Backend {
	if b == nil {
		return nil
	}
	bare := Backend{Type: b.Type, Model: b.Model, Params: maps.Clone(b.Params)}
	for _, name := range []string{Targets, RecordedData} {
		if file, named := b.Params[name].(string); named && b.IsOffline() {
			bare.Params[name] = filepath.Base(file)
		}
	}
	return &bare
}

// threshold returns the least score of a decision on which the team acts, or nil. Parse refuses a
// calibration without one.
func (a actWhen) threshold() *coordination.Threshold {
	if a.Wrong == nil || a.Calibration == nil {
		return nil
	}
	least, _ := a.Calibration.Promise(*a.Wrong)
	return least
}

func canonicalJSON(kind string, v any) ([]byte, error) {
	data, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("write the %s as JSON: %w", kind, err)
	}
	return data, nil
}

func hashJSON(data []byte, err error) string {
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// Coordination returns the part of the team's configuration that the protocol needs.
func (t Team) Coordination() coordination.Config {
	o := t.Orchestrator
	c := coordination.Config{
		OnSplit:          o.OnSplit,
		MaxRevotes:       o.MaxRevotes,
		MaxStepsPerAgent: o.MaxStepsPerAgent,
		OnAgentFailure:   o.OnAgentFailure,
		Mode:             o.CoordinationMode,
		Pacing:           o.Pacing,
		AnswersPerAgent:  valueOf(o.MaxNewAnswersPerAgent),
		AnswersGlobal:    valueOf(o.MaxNewAnswersGlobal),
		DeferVoting:      o.DeferVotingUntilAllAnswered,
		SkipVoting:       o.SkipVoting,
		Strategy:         o.FinalAnswerStrategy,
		SkipPresentation: o.SkipFinalPresentation,
		Presenter:        valueOf(o.PresenterAgent),
		MaxRestarts:      o.MaxOrchestrationRestarts,
		MinActive:        o.MinActiveAgents,
		Critiques:        t.Evaluates(),
		StopAtCeiling:    o.Coordination.StopAtCeiling,
		Secluded:         o.PeerVisibility == "none",
		Solo:             o.AllowSoloRefinement,
		Agree:            t.Agreement(),
		MaxRounds:        valueOf(o.MaxRounds),
		Ballot:           o.Ballot,
		ShowChecks:       o.ShowChecks,
		Quorum:           o.DecideWhen == "quorum",
		Early:            o.EarlyAgreement,
		MinSupport:       valueOf(o.ActWhen.MinSupport),
		DeferUpdates:     o.DeferPeerUpdatesUntilRestart,
		Skill:            map[string]float64{},
		Promise:          o.ActWhen.threshold(),
		Budget:           coordination.Allowance{USD: valueOf(o.Budget.MaxCostUSD), Tokens: int64(valueOf(o.Budget.MaxTotalTokens))},
	}
	for _, agent := range t.Agents {
		c.Agents = append(c.Agents, agent.ID)
		if agent.Skill != nil {
			c.Skill[agent.ID] = *agent.Skill
		}
	}
	if defaults := Defaults[Orchestrator](); o.MaxQuestions != defaults.MaxQuestions || o.AskTimeoutSeconds != defaults.AskTimeoutSeconds {
		c.MaxQuestions, c.AskSeconds = o.MaxQuestions, o.AskTimeoutSeconds
	}
	c.DenyLate = o.OnAskTimeout == "deny"
	if c.Quorum {
		c.QuorumGrace = o.QuorumGraceSeconds
	}
	if o.TeamSize.Start != nil {
		c.Start, c.Grow = *o.TeamSize.Start, o.TeamSize.Step
	}
	if !o.DisableInjection {
		c.Updates = o.UpdateMode
	}
	// BeforeChecklist is only meaningful with checklists.
	c.BeforeChecklist = c.DeferUpdates && valueOf(o.AllowMidstreamPeerUpdatesBeforeChecklistSubmit) && o.VotingSensitivity == checklistGated
	if o.FairnessEnabled {
		c.LeadCap = &o.FairnessLeadCapAnswers
		c.UpdatesPerStep = o.MaxMidstreamInjectionsPerRound
	}
	return c
}

func valueOf[T any](p *T) T {
	if p == nil {
		p = new(T)
	}
	return *p
}

// IdleRules returns a sentence for each rule of approvals that can never fit.
func (t Team) IdleRules() []string {
	var tools, servers []string
	for _, a := range t.Agents {
		tools = append(tools, llm.BuiltinNames(a.Tools.Files, a.Tools.Shell != ShellOff)...)
		for _, s := range a.MCPServers {
			servers = append(servers, "mcp__"+s.Name+"__")
		}
	}
	return approval.Idle("orchestrator.approvals", t.Orchestrator.Approvals, append(tools, "adopt_files"), servers)
}

// AsksPerson returns the key that makes steps of the team wait for a person, or "".
func (t Team) AsksPerson() string {
	if t.Orchestrator.AskPerson {
		return "orchestrator.ask_person"
	}
	for i, r := range t.Orchestrator.Approvals {
		if r.Do == approval.Ask {
			return itemKey("orchestrator.approvals", i) + ".do"
		}
	}
	return ""
}
