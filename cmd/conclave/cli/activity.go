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

// fitDetails puts below the rows of the agents their texts and activities. If there is no room for all
// of it, it leaves out the activities that are not waits, then the oldest texts. It returns
// false if there is no room for the waits.
func (s Snapshot) fitDetails(rows []string, room, width int, color bool) (lines []string, fits bool) {
	newest := s.newestFirst()
	if lines = s.withDetails(rows, newest, width, color); len(lines) <= room {
		return lines, true
	}
	waiting := s.onlyWaits()
	for n := len(newest); n >= 0; n-- {
		if lines = waiting.withDetails(rows, newest[:n], width, color); len(lines) <= room {
			return lines, true
		}
	}
	return nil, false
}

// withDetails inserts the texts of the agents in saying and their activities below their rows,
// and appends the activities of other work.
func (s Snapshot) withDetails(rows, saying []string, width int, color bool) []string {
	var all []string
	for i, agent := range s.State.Agents {
		all = append(all, rows[i])
		said := s.saidBy(agent)
		if len(saying) < len(s.State.Agents) { // there is no room for all
			said = said[max(0, len(said)-1):]
		}
		for _, line := range said {
			if slices.Contains(saying, agent.ID) {
				all = append(all, "    "+faint.on(line[0], color)+line[1])
			}
		}
		for _, a := range s.activitiesOf(agent) {
			all = append(all, a.wrappedLines(a.Timed(s.Now), "    ", width, color)...)
		}
	}
	for _, a := range s.otherWork() {
		all = append(all, a.wrappedLines(a.Named("", s.Now), "  ", width, color)...)
	}
	return all
}

// saidBy returns the first line of an agent's newest answer and the reason of its vote, each after its
// title.
func (s Snapshot) saidBy(a coordination.AgentView) (said [][2]string) {
	if gist := Line(s.Gists[a.ID]); gist != "" {
		said = append(said, [2]string{"answer: ", gist})
	}
	if a.Vote != nil && a.Vote.Reason != "" {
		said = append(said, [2]string{"reason: ", FirstLine(Line(a.Vote.Reason))})
	}
	return said
}

// newestFirst returns the agents by their newest answers and votes.
func (s Snapshot) newestFirst() []string {
	newest := slices.Clone(s.Recent)
	slices.Reverse(newest)
	for _, a := range s.State.Agents {
		if !slices.Contains(newest, a.ID) {
			newest = append(newest, a.ID)
		}
	}
	return newest
}

// newestWords returns lines with the newest answers and reasons, for a screen that is too small for those
// of all agents.
func (s Snapshot) newestWords() (lines []string) {
	const most = 3
	for _, id := range s.newestFirst() {
		i := slices.IndexFunc(s.State.Agents, func(a coordination.AgentView) bool { return a.ID == id })
		if i < 0 {
			continue
		}
		if said := s.saidBy(s.State.Agents[i]); len(said) > 0 && len(lines) < most {
			lines = append(lines, "  "+id+" "+strings.Join(said[len(said)-1][:], ""))
		}
	}
	slices.Reverse(lines)
	return lines
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
