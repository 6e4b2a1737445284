package session

import (
	"fmt"
	"strings"
	"time"

	"go.temporal.io/sdk/workflow"

	acts "conclave/activities/session"
	"conclave/engine/coordination"
	"conclave/workflows/drive"
)

// running is a step under way.
type running struct {
	launch coordination.Launch
	future workflow.Future
	cancel workflow.CancelFunc

	// cancelled says that the core wanted it ended. Unless it acted before it
	// was, it is suspended, whatever its error says.
	cancelled bool
}

// launch starts a step. Its activity ID is typable, for `temporal activity …`.
func (s *session) launch(l coordination.Launch) {
	ctx, cancel := workflow.WithCancel(s.ctx)
	ctx = drive.Step(ctx, fmt.Sprintf("%s-%s", l.Agent, l.ID), launchSummary(l), time.Duration(s.prepared.TimeoutSeconds)*time.Second)
	input := acts.StepInput{Session: s.id, ConfigHash: s.prepared.ConfigHash, Launch: l}
	s.running = append(s.running, running{
		launch: l, cancel: cancel,
		future: workflow.ExecuteActivity(ctx, acts.RunStepName, input),
	})
}

// launchSummary is the step in the Web UI's event list.
func launchSummary(l coordination.Launch) string {
	who := fmt.Sprintf("%s (agent%d) · round %d · ", l.Agent, l.Number, l.Round)
	if l.ResumeFrom != "" {
		who += "goes on · "
	}
	switch l.Purpose {
	case coordination.Present:
		return who + "presents the final answer"
	case coordination.Evaluate:
		return who + "judges the final answer"
	case coordination.Coordinate:
	}
	if len(l.Shown) == 0 {
		return who + "first answer"
	}
	return who + "sees " + labels(l.Shown)
}

func labels(answers []coordination.Shown) string {
	const most = 8 // a summary holds 400 bytes
	var names []string
	for _, shown := range answers[:min(most, len(answers))] {
		names = append(names, shown.Label)
	}
	text := strings.Join(names, " ")
	if more := len(answers) - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// cancelStep ends a step. Whether it is to go on later is the core's business.
func (s *session) cancelStep(id coordination.LaunchID) {
	for i := range s.running {
		if r := &s.running[i]; r.launch.ID == id {
			r.cancelled = true
			r.cancel()
		}
	}
}
