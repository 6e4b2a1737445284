package cli

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"

	"conclave/engine/coordination"
)

// Activity is the current activity of a step or of other work. Its kind is empty while a
// step is being set up.
type Activity struct {
	Agent string // agent of the step; empty for other work
	Work  string // name of other work; empty for a step
	First bool   // the first model call of a step
	Said  string // the end of the reply under way

	Session string // ID of the team's session that is the work; empty for other work
	coordination.Doing
}

func (a Activity) subjectName() string {
	if a.Agent != "" {
		return Line(a.Agent)
	}
	return Line(a.Work)
}

func (a Activity) isWait() bool { return a.Kind != "" && a.Waits() }

// waitWords maps the kinds of waits to words. A pause is described by its text.
var waitWords = map[coordination.DoingKind]string{
	coordination.RateLimited: "rate limit", coordination.ModelAway: "outage", coordination.Queued: "waiting",
}

// Text describes the activity at a point in time.
func (a Activity) Text(now time.Time) string {
	what := Line(a.What)
	words := waitWords[a.Kind]
	if words == "" {
		return what
	}
	switch left := a.Until.Sub(now); {
	case a.Until.IsZero():
	case left <= 0:
		words += ", trying again"
	default:
		words += ", next try in " + roundedUp(left)
	}
	return words + ": " + what
}

// roundedUp formats a remaining time, rounded up to a second.
func roundedUp(d time.Duration) string {
	d = (d + time.Second - 1).Truncate(time.Second)
	if d < 100*time.Second {
		return fmt.Sprintf("%d s", int(d/time.Second))
	}
	return Clock(d)
}

// Timed returns Text after the time that the activity has lasted.
func (a Activity) Timed(now time.Time) string {
	if a.Since.IsZero() {
		return a.Text(now)
	}
	return Clock(now.Sub(a.Since)) + " " + a.Text(now)
}

// Named returns Timed. For work other than an agent's step it prepends the name of the work.
func (a Activity) Named(agent string, now time.Time) string {
	if a.Agent != "" && a.Agent == agent {
		return a.Timed(now)
	}
	return a.subjectName() + ": " + a.Timed(now)
}

// How long an activity must last before a log reports it. loggedWait is for waits, which are
// also reported if they are expected to last longer, and for the first model call of a step;
// loggedCall is for other calls of a model or a tool.
const (
	loggedWait = 1500 * time.Millisecond
	loggedCall = 30 * time.Second
)

func (a Activity) isLogged(now time.Time) bool {
	lasts := now.Sub(a.Since)
	if a.isWait() {
		return max(lasts, a.Until.Sub(a.Since)) >= loggedWait
	}
	return a.Kind == "" || lasts >= loggedCall || a.First && lasts >= loggedWait
}

// logLine returns the line for a log and its key. The line is printed again only when
// the key changes.
func (a Activity) logLine(now time.Time) (key, line string) {
	key = a.subjectName() + ": " + string(a.Kind) + " " + a.What
	line = a.subjectName() + ": " + a.Text(now)
	if a.Kind != "" && !a.isWait() {
		key += a.Since.String()
		if lasts := now.Sub(a.Since); lasts >= loggedCall {
			key += " long"
			line += " for " + roundedUp(lasts)
		}
	}
	return key, line
}

// Log returns lines about activities for output that is not a terminal. The zero Log is
// ready for use.
type Log struct {
	printed map[string]bool   // keys of the current activities
	waited  map[string]string // keys of the last lines of Waits, by agent
}

// News returns a line for each activity worth logging that was not in the previous call.
func (l *Log) News(activities []Activity, now time.Time) []string {
	var news []string
	current := map[string]bool{}
	for _, a := range activities {
		if !a.isLogged(now) {
			continue
		}
		key, line := a.logLine(now)
		if current[key] = true; !l.printed[key] {
			news = append(news, line)
		}
	}
	l.printed = current
	return news
}

// Waits returns a line for every minute in which a session waits for a model that does not reply,
// with the key that shortens the wait. While an agent is away, nobody waits for it.
func (l *Log) Waits(s Snapshot) []string {
	var lines []string
	for _, a := range s.Activities {
		silent := a.Kind == coordination.CallsModel && a.Said == ""
		minutes := int(s.Now.Sub(a.Since) / time.Minute)
		line := fmt.Sprint(a.Since, minutes)
		waits := slices.ContainsFunc(s.State.Agents, func(v coordination.AgentView) bool { return v.ID == a.Agent && v.Running && v.Doing == nil })
		if !waits || !silent && a.Kind != coordination.ModelAway || minutes < 1 || l.waited[a.Agent] == line {
			continue
		}
		if l.waited == nil {
			l.waited = map[string]string{}
		}
		l.waited[a.Agent] = line
		key := "timeout_settings.outage_seconds"
		switch {
		case s.canDecideWithout(a.Agent):
			key = "timeout_settings.away_seconds"
		case silent:
			key = "silent_timeout_seconds of its backend"
		}
		lines = append(lines, fmt.Sprintf("waiting for %s for %d min: %s; %s shortens this", a.subjectName(), minutes, a.Text(s.Now), key))
	}
	return lines
}

// canDecideWithout reports whether more than half of the team have answered without the agent.
func (s Snapshot) canDecideWithout(agent string) bool {
	answered, team := 0, 0
	for _, a := range s.State.Agents {
		if !a.Absent {
			team++
		}
		if a.ID != agent && a.LatestLabel != "" && a.Error == nil {
			answered++
		}
	}
	return 2*answered > team
}

// activitiesOf returns the activities of an agent, without the calls of a step that has ended since they
// were described. The session's own wait is in its state instead.
func (s Snapshot) activitiesOf(agent coordination.AgentView) []Activity {
	var all []Activity
	for _, a := range s.Activities {
		if a.Agent == agent.ID && (agent.Running || a.isWait()) {
			all = append(all, a)
		}
	}
	if len(all) == 0 && agent.Doing != nil && agent.Doing.Waits() {
		all = append(all, Activity{Agent: agent.ID, Doing: *agent.Doing})
	}
	return all
}

func (s Snapshot) otherWork() []Activity {
	shown := map[string]bool{}
	for _, a := range s.State.Agents {
		shown[a.ID] = true
	}
	var all []Activity
	for _, a := range s.Activities {
		if !shown[a.Agent] {
			all = append(all, a)
		}
	}
	return all
}

func (s Snapshot) onlyWaits() Snapshot {
	var waits []Activity
	for _, a := range s.Activities {
		if a.isWait() {
			waits = append(waits, a)
		}
	}
	s.Activities = waits
	return s
}

// withActivities inserts the activities of each agent below its row and appends those of
// other work.
func (s Snapshot) withActivities(rows []string, width int, color bool) []string {
	var all []string
	for i, agent := range s.State.Agents {
		all = append(all, rows[i])
		for _, a := range s.activitiesOf(agent) {
			all = append(all, a.wrappedLines(a.Timed(s.Now), "    ", width, color)...)
		}
	}
	for _, a := range s.otherWork() {
		all = append(all, a.wrappedLines(a.Named("", s.Now), "  ", width, color)...)
	}
	return all
}

// wrappedLines formats an activity. A wait may take several lines, because its text ends with
// the remedy.
func (a Activity) wrappedLines(text, indent string, width int, color bool) []string {
	p, most := faint, 1
	switch {
	case a.Kind == coordination.OnHold:
		p, most = yellow, 3
	case a.isWait():
		p, most = yellow, 2
	}
	room := max(1, width-1-len(indent))
	lines := strings.SplitN(ansi.Wrap(text, room, ""), "\n", most)
	for i, line := range lines {
		line = ansi.Truncate(strings.ReplaceAll(line, "\n", " "), room, "…")
		lines[i] = indent + p.on(line, color)
	}
	return lines
}

func (s Snapshot) waitsSummary() string {
	waits := s.onlyWaits().Activities
	if len(waits) == 0 {
		return ""
	}
	text := waits[0].subjectName() + ": " + waits[0].Text(s.Now)
	if more := len(waits) - 1; more > 0 {
		text = fmt.Sprintf("%d waiting; %s", len(waits), text)
	}
	return text
}
