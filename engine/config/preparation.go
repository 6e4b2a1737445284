package config

import (
	"embed"
	"encoding/json"
	"io/fs"
	"slices"
	"strings"

	"conclave/engine/coordination"
	"conclave/engine/text"
)

// preparation configures the preparations before the agents begin and the evaluation of rounds.
type preparation struct {
	PersonaGenerator                     personaGenerator  `json:"persona_generator" doc:"Give every agent a point of view of its own, by one model call at the start of a session."`
	EvaluationCriteriaGenerator          criteriaGenerator `json:"evaluation_criteria_generator" doc:"Make evaluation criteria for the query, by one model call at the start of a session. Not used where the session or checklist_criteria_inline has criteria."`
	TaskDecomposer                       taskDecomposer    `json:"task_decomposer" doc:"Divide the work in decomposition mode, where no agent has a subtask."`
	ChecklistCriteriaInline              Criteria          `json:"checklist_criteria_inline" doc:"Criteria that answers are judged by, unless the session brings its own; null: those of criteria_preset, or else the built-in ones."`
	CriteriaPreset                       *string           `json:"criteria_preset,omitzero" doc:"The name of a built-in set of criteria, as listed by conclave config criteria; null: none."`
	RoundEvaluatorBeforeChecklist        bool              `json:"round_evaluator_before_checklist" default:"false" doc:"Have every answer evaluated by a separate step before its agent's next step. Needs orchestrator_managed_round_evaluator and voting_sensitivity checklist_gated."`
	OrchestratorManagedRoundEvaluator    bool              `json:"orchestrator_managed_round_evaluator" default:"false" doc:"The session starts these evaluations. Needs round_evaluator_before_checklist."`
	RoundEvaluator                       roundEvaluator    `json:"round_evaluator,omitzero" doc:"The evaluator of rounds."`
	RoundEvaluatorTransformationPressure string            `json:"round_evaluator_transformation_pressure" default:"balanced" enum:"gentle,balanced,aggressive" doc:"How soon the evaluator asks for a different approach instead of corrections."`
	StopAtCeiling                        bool              `json:"stop_at_ceiling,omitzero" default:"false" doc:"End the session, with the status finished, once two evaluations in a row have found every active agent's approach at its ceiling without a higher score."`
}

type personaGenerator struct {
	Enabled          bool   `json:"enabled" default:"false" doc:"Whether it is used."`
	DiversityMode    string `json:"diversity_mode,omitzero" default:"perspective" enum:"perspective,implementation,methodology" doc:"How the personas differ: in their point of view, in the kind of solution they prefer, or in their way of working."`
	AfterFirstAnswer string `json:"after_first_answer,omitzero" default:"drop" enum:"drop,soften,keep" doc:"What becomes of an agent's persona once it is shown an answer of another agent."`
}

// MarshalJSON omits the keys of later versions if they have their defaults.
func (p personaGenerator) MarshalJSON() ([]byte, error) {
	type plain personaGenerator
	defaults := Defaults[personaGenerator]()
	omitDefault(&p.DiversityMode, defaults.DiversityMode)
	omitDefault(&p.AfterFirstAnswer, defaults.AfterFirstAnswer)
	return json.Marshal(plain(p))
}

type criteriaGenerator struct {
	Enabled     bool `json:"enabled" default:"false" doc:"Whether it is used."`
	MinCriteria int  `json:"min_criteria" default:"4" min:"1" doc:"The fewest criteria to make."`
	MaxCriteria int  `json:"max_criteria" default:"7" min:"1" max:"20" doc:"The most criteria to make."`
}

type taskDecomposer struct {
	Enabled bool `json:"enabled" default:"true" doc:"Make the subtasks, by one model call at the start of a session; false: every agent needs a subtask of its own."`
}

// roundEvaluator configures the evaluator of rounds.
type roundEvaluator struct {
	Backend *Backend `json:"backend" doc:"The model behind the evaluator; null: that of the agent whose answer it evaluates."`
}

// Evaluator is the ID of the evaluator of rounds among the agents of Team.Models.
const Evaluator = "round_evaluator"

// Evaluates reports whether answers are evaluated between the steps of their agents.
func (t Team) Evaluates() bool { return t.Orchestrator.Coordination.OrchestratorManagedRoundEvaluator }

// Decomposes reports whether a model divides the work.
func (t Team) Decomposes() bool {
	o := t.Orchestrator
	given := func(a Agent) bool { return strings.TrimSpace(a.Subtask) != "" }
	return o.CoordinationMode == coordination.Decomposition && o.Coordination.TaskDecomposer.Enabled && !slices.ContainsFunc(t.Agents, given)
}

// SessionOnly returns the keys of orchestrator.coordination that are switched on and that
// only sessions obey, not single steps.
func (t Team) SessionOnly() []string {
	c := t.Orchestrator.Coordination
	var keys []string
	if c.PersonaGenerator.Enabled {
		keys = append(keys, "persona_generator")
	}
	if c.EvaluationCriteriaGenerator.Enabled {
		keys = append(keys, "evaluation_criteria_generator")
	}
	if t.Evaluates() {
		keys = append(keys, "round_evaluator_before_checklist")
	}
	return keys
}

// Idle returns the keys of orchestrator.coordination that have no effect because the evaluator of
// rounds is switched off.
func (t Team) Idle() []string {
	c := t.Orchestrator.Coordination
	if t.Evaluates() {
		return nil
	}
	var keys []string
	if c.RoundEvaluator.Backend != nil {
		keys = append(keys, "round_evaluator.backend")
	}
	if pressure := c.RoundEvaluatorTransformationPressure; pressure != Defaults[preparation]().RoundEvaluatorTransformationPressure && pressure != "" {
		keys = append(keys, "round_evaluator_transformation_pressure")
	}
	return keys
}

// Models returns everything with a model: the agents and, as agents without tools, the judge
// of equality and the evaluator of rounds if it has its own model.
func (t Team) Models() []Agent {
	all := slices.Clip(t.Agents)
	if backend := t.Orchestrator.Coordination.RoundEvaluator.Backend; backend != nil && t.Evaluates() {
		all = append(all, Agent{ID: Evaluator, Backend: *backend})
	}
	if judge, found := t.JudgeOf(); found {
		all = append(all, judge)
	}
	return all
}

// TakesText reports whether an agent whose model calls no tools can take part by answering and voting in
// plain text. It cannot if it may have to stop, evaluate or judge equality, which are calls.
func (t Team) TakesText(agent string) bool {
	o := t.Orchestrator
	_, found := t.Agent(agent)
	return found && o.TextAnswers != "never" && o.CoordinationMode != coordination.Decomposition && !t.Evaluates()
}

// Alone returns a team of the first agent, which answers once and without a vote.
func (t Team) Alone() Team {
	agent := t.Agents[0]
	agent.Subtask = ""
	alone := Team{Agents: []Agent{agent}, Orchestrator: Defaults[Orchestrator](), Timeouts: t.Timeouts}
	alone.Orchestrator.SkipVoting, alone.Orchestrator.Budget = true, t.Orchestrator.Budget
	return alone
}

// EvaluatorOf returns the evaluator of an agent's answers. It has the agent's built-in tools
// and, unless the evaluator has its own model, the agent's model.
func (t Team) EvaluatorOf(a Agent) Agent {
	a.SystemMessage, a.MCPServers = "", nil
	if backend := t.Orchestrator.Coordination.RoundEvaluator.Backend; backend != nil {
		a.ID, a.Backend = Evaluator, *backend
	}
	return a
}

// Criteria returns the criteria that the team's configuration sets for its sessions, or nil.
func (t Team) Criteria() Criteria {
	c := t.Orchestrator.Coordination
	if len(c.ChecklistCriteriaInline) > 0 || c.CriteriaPreset == nil {
		return c.ChecklistCriteriaInline
	}
	preset, _ := PresetNamed(*c.CriteriaPreset) // the name was checked
	return preset.Criteria
}

func (d *Decoder) checkPreparation(key string, t Team) {
	c := t.Orchestrator.Coordination
	if g := c.EvaluationCriteriaGenerator; g.MinCriteria > g.MaxCriteria {
		d.Report(key+".evaluation_criteria_generator", "min_criteria is %d and max_criteria %d; the first is at most the second", g.MinCriteria, g.MaxCriteria)
	}
	if c.CriteriaPreset != nil {
		if _, ok := PresetNamed(*c.CriteriaPreset); !ok {
			d.Name(key+".criteria_preset", *c.CriteriaPreset, "a built-in set of criteria", presetNames())
		}
	}
	before, managed := c.RoundEvaluatorBeforeChecklist, c.OrchestratorManagedRoundEvaluator
	switch {
	case before && !managed:
		d.Report(key+".round_evaluator_before_checklist", "only the session can start the evaluator: set orchestrator_managed_round_evaluator: true as well")
	case managed && !before:
		d.Report(key+".orchestrator_managed_round_evaluator", "the evaluator runs before the checklist: set round_evaluator_before_checklist: true as well")
	case managed && t.Orchestrator.VotingSensitivity != checklistGated:
		d.Report(key+".round_evaluator_before_checklist", "there is no checklist with voting_sensitivity %s: set orchestrator.voting_sensitivity to %s", t.Orchestrator.VotingSensitivity, checklistGated)
	case !managed && c.StopAtCeiling:
		d.Report(key+".stop_at_ceiling", "only the evaluator of rounds finds a ceiling: set round_evaluator_before_checklist and orchestrator_managed_round_evaluator to true, or remove it")
	}
	if b := c.RoundEvaluator.Backend; b != nil {
		d.checkBackend(key+".round_evaluator.backend", *b)
	}
}

// checklistGated is the value of voting_sensitivity that uses a checklist.
const checklistGated = "checklist_gated"

//go:embed presets/*.yaml
var presetFiles embed.FS

// Preset is a built-in set of evaluation criteria. About names the work that it fits.
type Preset struct {
	Name     string   `json:"name"`
	About    string   `json:"about"`
	Criteria Criteria `json:"criteria"`
}

// presetFile is the content of a preset's file. The file's name is the preset's name.
type presetFile struct {
	About    string   `json:"about" doc:"The work that it fits."`
	Criteria Criteria `json:"criteria" doc:"The criteria."`
}

// Presets returns the built-in sets of evaluation criteria, sorted by name.
func Presets() []Preset {
	var presets []Preset
	for _, name := range presetNames() {
		if p, ok := PresetNamed(name); ok {
			presets = append(presets, p)
		}
	}
	return presets
}

// PresetNamed returns the built-in set of evaluation criteria with the given name.
func PresetNamed(name string) (Preset, bool) {
	file := "presets/" + name + ".yaml"
	data, err := presetFiles.ReadFile(file) // fails for a name that leads out of the directory
	if err != nil {
		return Preset{}, false
	}
	f, err := Decode(file, data, Local, func(presetFile, *Decoder) {})
	return Preset{Name: name, About: f.About, Criteria: f.Criteria}, err == nil
}

func presetNames() []string {
	files, _ := fs.Glob(presetFiles, "presets/*.yaml") // the pattern is well-formed
	return text.Each(files, func(file string) string { return strings.TrimSuffix(strings.TrimPrefix(file, "presets/"), ".yaml") })
}
