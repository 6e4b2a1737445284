package config

// Orchestrator says how a team comes to a decision. For the tags see Team.
type Orchestrator struct {
	CoordinationMode                               string       `json:"coordination_mode" default:"voting" enum:"voting,decomposition" doc:"voting: every agent answers the query and the team votes; decomposition: every agent owns a part."`
	Pacing                                         string       `json:"pacing" default:"rounds" enum:"rounds,continuous" doc:"rounds: a wave of steps waits for the one before; continuous: an agent goes on as soon as it has something new to see."`
	UpdateMode                                     string       `json:"update_mode" default:"inject" enum:"inject,restart" doc:"How an agent at work learns of new answers: inject tells it, restart begins its step again."`
	OnSplit                                        string       `json:"on_split" default:"revote" enum:"revote,plurality,fail" doc:"What happens when all votes are fresh and no answer has the majority."`
	MaxRevotes                                     int          `json:"max_revotes" default:"1" min:"0" doc:"How often a session repeats a split vote before the plurality decides."`
	MaxStepsPerAgent                               int          `json:"max_steps_per_agent" default:"12" min:"1" doc:"How many steps an agent may take; at the limit the session decides with what is there."`
	VotingSensitivity                              string       `json:"voting_sensitivity" default:"lenient" enum:"lenient,balanced,strict,checklist_gated" doc:"How much better a new answer has to be than the ones there are."`
	DisableInjection                               bool         `json:"disable_injection" default:"false" doc:"Never tell an agent at work of new answers."`
	FairnessEnabled                                bool         `json:"fairness_enabled" default:"true" doc:"Keep fast agents from running ahead of slow ones."`
	FairnessLeadCapAnswers                         int          `json:"fairness_lead_cap_answers" default:"2" min:"0" doc:"How many answers an agent may be ahead of the slowest one."`
	MaxMidstreamInjectionsPerRound                 int          `json:"max_midstream_injections_per_round" default:"2" min:"1" doc:"How many updates a step is told of at most."`
	DeferPeerUpdatesUntilRestart                   bool         `json:"defer_peer_updates_until_restart" default:"false" doc:"Keep updates for an agent's next step."`
	AllowMidstreamPeerUpdatesBeforeChecklistSubmit *bool        `json:"allow_midstream_peer_updates_before_checklist_submit" doc:"Tell updates to an agent that has not submitted its checklist; null: as the voting sensitivity has it."`
	MaxNewAnswersPerAgent                          *int         `json:"max_new_answers_per_agent" min:"1" doc:"How many answers an agent may give; null: any number."`
	MaxNewAnswersGlobal                            *int         `json:"max_new_answers_global" min:"1" doc:"How many answers the team may give together; null: any number."`
	DeferVotingUntilAllAnswered                    bool         `json:"defer_voting_until_all_answered" default:"false" doc:"Offer no vote before every agent has answered."`
	AnswerNoveltyRequirement                       string       `json:"answer_novelty_requirement" default:"lenient" enum:"lenient,balanced,strict" doc:"How different a new answer has to be from the ones there are."`
	MaxChecklistCallsPerRound                      int          `json:"max_checklist_calls_per_round" default:"1" min:"1" doc:"How often a step may submit its checklist."`
	ChecklistFirstAnswer                           bool         `json:"checklist_first_answer" default:"false" doc:"Ask for a checklist before the first answer too."`
	SkipVoting                                     bool         `json:"skip_voting" default:"false" doc:"End when every agent has answered."`
	SkipFinalPresentation                          bool         `json:"skip_final_presentation" default:"false" doc:"Take the winning answer as it is."`
	FinalAnswerStrategy                            string       `json:"final_answer_strategy" default:"winner_reuse" enum:"winner_reuse,winner_present,synthesize" doc:"Where the final answer is from: the winning answer as it is, its author presenting it, or a synthesis of all."`
	PresenterAgent                                 *string      `json:"presenter_agent" doc:"The agent that presents; null: the winner."`
	MaxOrchestrationRestarts                       int          `json:"max_orchestration_restarts" default:"0" min:"0" doc:"How often the team may begin again after judging its final answer."`
	OnAgentFailure                                 string       `json:"on_agent_failure" default:"continue" enum:"continue,park,fail" doc:"When an agent fails: the rest decide, the session waits for a person, or it fails."`
	Budget                                         Budget       `json:"budget" doc:"What a session may cost."`
	Coordination                                   Coordination `json:"coordination" doc:"What is prepared before the agents begin, and how rounds are evaluated."`
}

// Budget limits what a session may cost.
type Budget struct {
	MaxCostUSD     *float64 `json:"max_cost_usd" min:"0" doc:"US dollars; null: no limit."`
	MaxTotalTokens *int     `json:"max_total_tokens" min:"1" doc:"Input and output tokens together; null: no limit."`
}

// Coordination is what is prepared before the agents begin, and how rounds are
// evaluated.
type Coordination struct {
	PersonaGenerator                     PersonaGenerator  `json:"persona_generator" doc:"Give every agent a point of view of its own."`
	EvaluationCriteriaGenerator          CriteriaGenerator `json:"evaluation_criteria_generator" doc:"Make evaluation criteria for the query."`
	TaskDecomposer                       TaskDecomposer    `json:"task_decomposer" doc:"Divide the work in decomposition mode."`
	ChecklistCriteriaInline              Criteria          `json:"checklist_criteria_inline" doc:"Evaluation criteria; null: none of its own."`
	RoundEvaluatorBeforeChecklist        bool              `json:"round_evaluator_before_checklist" default:"false" doc:"Have a round evaluated before the checklist is offered."`
	OrchestratorManagedRoundEvaluator    bool              `json:"orchestrator_managed_round_evaluator" default:"false" doc:"Start the round's evaluation for the agents."`
	RoundEvaluatorTransformationPressure string            `json:"round_evaluator_transformation_pressure" default:"balanced" enum:"gentle,balanced,aggressive" doc:"How strongly the evaluation asks for a different approach."`
}

// PersonaGenerator makes the agents' points of view.
type PersonaGenerator struct {
	Enabled bool `json:"enabled" default:"false" doc:"Whether it is used."`
}

// CriteriaGenerator makes evaluation criteria.
type CriteriaGenerator struct {
	Enabled     bool `json:"enabled" default:"false" doc:"Whether it is used."`
	MinCriteria int  `json:"min_criteria" default:"4" min:"1" doc:"The fewest criteria to make."`
	MaxCriteria int  `json:"max_criteria" default:"7" min:"1" doc:"The most criteria to make."`
}

// TaskDecomposer divides the work among the agents.
type TaskDecomposer struct {
	Enabled bool `json:"enabled" default:"true" doc:"Whether it is used for agents without a subtask."`
}

// Timeouts are limits of time in seconds.
type Timeouts struct {
	OrchestratorTimeoutSeconds    int  `json:"orchestrator_timeout_seconds" default:"7200" min:"1" max:"31536000" doc:"How long a session may take; then it decides with what is there."`
	InitialRoundTimeoutSeconds    *int `json:"initial_round_timeout_seconds" min:"1" max:"31536000" doc:"How long an agent's first step may take; null: no limit of its own."`
	SubsequentRoundTimeoutSeconds *int `json:"subsequent_round_timeout_seconds" min:"1" max:"31536000" doc:"How long every later step may take; null: no limit of its own."`
	RoundTimeoutGraceSeconds      int  `json:"round_timeout_grace_seconds" default:"120" min:"0" max:"31536000" doc:"How long a step may go on after it was told to come to an end."`
}
