package team

import (
	"time"

	"conclave/engine/config"
	"conclave/engine/coordination"
)

// Settings are the team configuration of its members' steps.
type Settings struct {
	Sensitivity string            // of voting; empty means lenient
	Novelty     string            // required of new answers; empty means lenient
	Criteria    config.Criteria   // for sessions without their own
	Subtasks    map[string]string // parts of divided work by agent ID; else nil

	// FirstRound and LaterRound are the soft limits of an agent's first and later steps,
	// as work; 0 for none. Grace is the time left after them.
	FirstRound, LaterRound, Grace time.Duration

	AnswersPerAgent int  // 0 for any number
	ChecklistCalls  int  // accepted checklists per step
	ChecklistFirst  bool // checklists before the first answer, too
}

// SettingsOf reads the settings from the configuration.
func SettingsOf(t config.Team) Settings {
	o := t.Orchestrator
	s := Settings{
		Sensitivity:    o.VotingSensitivity,
		Novelty:        o.AnswerNoveltyRequirement,
		FirstRound:     seconds(t.Timeouts.InitialRoundTimeoutSeconds),
		LaterRound:     seconds(t.Timeouts.SubsequentRoundTimeoutSeconds),
		Grace:          seconds(&t.Timeouts.RoundTimeoutGraceSeconds),
		Criteria:       o.Coordination.ChecklistCriteriaInline,
		ChecklistCalls: o.MaxChecklistCallsPerRound,
		ChecklistFirst: o.ChecklistFirstAnswer,
	}
	if o.MaxNewAnswersPerAgent != nil {
		s.AnswersPerAgent = *o.MaxNewAnswersPerAgent
	}
	if o.CoordinationMode == coordination.Decomposition {
		s.Subtasks = make(map[string]string, len(t.Agents))
		for _, agent := range t.Agents {
			s.Subtasks[agent.ID] = agent.Subtask
		}
	}
	return s
}

// seconds converts a configured limit; nil is 0.
func seconds(n *int) time.Duration {
	if n == nil {
		return 0
	}
	return time.Duration(*n) * time.Second
}
