package member

import (
	"time"

	"conclave/engine/config"
	"conclave/engine/team"
)

// Settings are what the team's configuration says of its members' steps.
type Settings struct {
	Sensitivity string // voting sensitivity; empty is lenient
	Novelty     string // answer novelty requirement; empty is lenient

	// Subtasks are the parts of the work by agent ID; nil where everybody works
	// on the whole.
	Subtasks map[string]string

	// FirstRound and LaterRound are after how much work an agent's first step,
	// and every later one, is told to come to an end; 0 for never. Grace is what
	// it has left then.
	FirstRound, LaterRound, Grace time.Duration

	// Criteria are the team's own, for sessions that bring none.
	Criteria []team.Criterion

	// ChecklistCalls and ChecklistFirst are about the gated checklist: how many
	// accepted ones a step may submit, and whether before the first answer too.
	ChecklistCalls int
	ChecklistFirst bool

	// AnswersPerAgent is how many answers an agent may give; 0 for any number.
	AnswersPerAgent int
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
		Criteria:       CriteriaOf(o.Coordination.ChecklistCriteriaInline),
		ChecklistCalls: o.MaxChecklistCallsPerRound,
		ChecklistFirst: o.ChecklistFirstAnswer,
	}
	if o.MaxNewAnswersPerAgent != nil {
		s.AnswersPerAgent = *o.MaxNewAnswersPerAgent
	}
	if o.CoordinationMode == decomposition {
		s.Subtasks = make(map[string]string, len(t.Agents))
		for _, agent := range t.Agents {
			s.Subtasks[agent.ID] = agent.Subtask
		}
	}
	return s
}

// decomposition is the coordination mode in which the work is divided.
const decomposition = "decomposition"

// CriteriaOf are configured or brought criteria as a step is told them.
func CriteriaOf(configured config.Criteria) []team.Criterion {
	var criteria []team.Criterion
	for _, c := range configured {
		criteria = append(criteria, team.Criterion{
			Text: c.Text, Category: c.Category, VerifyBy: c.VerifyBy, AntiPatterns: c.AntiPatterns,
		})
	}
	return criteria
}

// seconds is a configured limit; none is 0.
func seconds(n *int) time.Duration {
	if n == nil {
		return 0
	}
	return time.Duration(*n) * time.Second
}
