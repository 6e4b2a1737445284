package scenario

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"conclave/engine/llm"
)

// Status is the status of a step or a run.
type Status string

// The statuses. Only steps can be Skipped or Errored.
const (
	Running   Status = "running"
	Pass      Status = "pass"
	Fail      Status = "fail"
	Skipped   Status = "skipped"
	Errored   Status = "error"
	Cancelled Status = "cancelled"
)

// Protocol is the version of the rules. A State keeps the version with which it was started;
// a run of another version is not continued by this one.
const Protocol = 3

// State is a run: plain data that survives JSON unchanged. It is not safe for
// concurrent use.
type State struct {
	Protocol int      `json:"protocol"`
	Plan     Plan     `json:"plan"`
	Results  []Result `json:"results"` // results of the ended steps, in the order of Plan.All

	// Earlier maps step ids to the results of the resumed run.
	Earlier map[string]Result `json:"earlier,omitempty"`

	Launched *Launch `json:"launched,omitempty"` // the running step
	Stopped  bool    `json:"stopped,omitempty"`  // its Stop was drained
	Launches int     `json:"launches"`

	// Rest is the execution token that the next launch of the step RestStep resumes; if RestStep
	// is empty, that of the next step to run. Carried is the usage so far.
	Rest      string    `json:"rest,omitempty"`
	RestStep  string    `json:"rest_step,omitempty"`
	Carried   llm.Usage `json:"carried,omitzero"`
	CarriedMS int64     `json:"carried_ms,omitempty"` // working time before the suspensions of the next step
	Continues string    `json:"continues,omitempty"`  // the step whose Rest belongs to an attempt in Earlier
	Uncounted bool      `json:"uncounted,omitempty"`  // Carried lacks the usage of Rest
	AwaySince time.Time `json:"away_since,omitzero"`  // when the model's server ceased to reply to Rest

	// Open lists later steps that had begun when the resumed run was cut off.
	Open []OpenStep `json:"open,omitempty"`

	Messages  []Keep `json:"messages,omitempty"` // messages that are not drained yet
	Said      int    `json:"said,omitempty"`     // number of messages so far
	Heard     int    `json:"heard,omitempty"`    // number of the last message that went to an ended step
	Announced int    `json:"rung,omitempty"`     // number of the last message announced to steps

	Paused     bool      `json:"paused,omitempty"`
	Unrecorded bool      `json:"unsaid,omitempty"` // a result is not recorded
	Halted     bool      `json:"halted,omitempty"` // a step did not pass: only Plan.After is still to run
	Over       bool      `json:"over,omitempty"`
	Finished   bool      `json:"told,omitempty"` // whether Done was drained
	Usage      llm.Usage `json:"usage"`
	Worked     int64     `json:"worked_ms,omitempty"` // time of the steps of this execution
	Spent      llm.Usage `json:"spent,omitzero"`      // usage of the steps of this execution
}

// OpenStep is a step without a recorded result. It continues from the execution token.
type OpenStep struct {
	Step  string `json:"step"`
	Token string `json:"token"`
}

// New starts a run of a checked plan. Earlier are the results of the run
// that this one resumes.
func New(p Plan, earlier []Result) *State {
	s := &State{Protocol: Protocol, Plan: p, Results: []Result{}, Unrecorded: true}
	for _, r := range earlier {
		if s.Earlier == nil {
			s.Earlier = map[string]Result{}
		}
		s.Earlier[r.ID] = r
		s.Usage = s.Usage.Add(r.Cost)
	}
	s.skip()
	return s
}

// Status returns the status of the run.
func (s *State) Status() Status {
	if !s.Over {
		return Running
	}
	passed, status := 0, Pass
	for _, r := range s.Results {
		switch {
		case r.Status == Cancelled:
			return Cancelled
		case r.Status == Pass:
			passed++
		case r.Status != Skipped || s.Plan.Selects(r.ID):
			status = Fail
		}
	}
	if passed == 0 {
		return Fail
	}
	return status
}

// Step applies an event. It never fails.
func (s *State) Step(event Event) {
	if s.Refuse(event) != nil {
		return
	}
	switch e := event.(type) {
	case Ended:
		if l := s.ended(e.Launch, e.Result.Cost); l != nil {
			s.addResult(e.Result)
		}
	case Suspended:
		if l := s.ended(e.Launch, e.Usage); l != nil {
			s.rest(l, e)
			s.Carried = s.Carried.Add(e.Usage)
			s.CarriedMS += e.DurationMS
		}
	case Said:
		s.Said++
		s.Messages = append(s.Messages, Keep{Number: s.Said, Text: strings.ToValidUTF8(e.Text, "\uFFFD")})
	case Pause:
		s.Paused = true
	case Resume:
		s.Paused = false
	case Cancel:
		why := "the run was cancelled"
		s.addResult(Result{Status: Cancelled, Error: &why, DurationMS: e.DurationMS})
		s.Paused = false
	}
}

// ended counts the usage of a step and returns its launch if the run waits for its result.
func (s *State) ended(id string, usage llm.Usage) *Launch {
	l := s.Launched
	if l == nil || l.ID != id {
		return nil
	}
	s.Launched, s.Stopped = nil, false
	s.Usage, s.Spent = s.Usage.Add(usage), s.Spent.Add(usage)
	for i := range s.Results {
		if r := &s.Results[i]; r.ID == l.Step.ID {
			// The step was cancelled, and its result was recorded without this usage.
			r.Cost = r.Cost.Add(usage)
			s.Unrecorded = true
			return nil
		}
	}
	return l
}

// rest keeps the token of a suspended step for the next launch. A step that reported no
// token leaves the one from which it resumed. Without a model call its usage is zero or
// unknown.
func (s *State) rest(l *Launch, e Suspended) {
	s.RestStep, s.AwaySince = l.Step.ID, e.AwaySince
	switch {
	case e.Token != "":
		s.Rest, s.Uncounted = e.Token, e.Usage.ModelCalls == 0
	default:
		s.Rest, s.Uncounted = l.ResumeFrom, l.Uncounted
	}
}

// Drain returns the commands that are due, each once.
func (s *State) Drain() []Command {
	commands := s.drainMessages()
	if s.Launched != nil && !s.Stopped && (s.Paused || s.HasResult(s.Launched.Step.ID)) {
		s.Stopped = true
		commands = append(commands, Stop{s.Launched.ID})
	}
	if s.Launched == nil && !s.Paused && !s.Over {
		s.exhaust()
	}
	if s.Unrecorded {
		s.Unrecorded = false
		commands = append(commands, Record{})
	}
	switch {
	case s.Launched != nil || s.Paused:
	case !s.Over:
		commands = append(commands, s.ring()...)
		commands = append(commands, s.launch())
	case !s.Finished:
		s.Finished = true
		commands = append(commands, Done{s.Status()})
	}
	return commands
}

// HasResult reports whether a step has a result.
func (s *State) HasResult(id string) bool {
	return slices.ContainsFunc(s.Results, func(r Result) bool { return r.ID == id })
}

// limits returns the limits of the next step, or the name of a limit that is used up. Steps
// of Plan.After have only their own limits.
func (s *State) limits() (limits Limits, tightened []string, exhausted string) {
	step, part, _ := s.next()
	own, used := step.Limits.rest(spent{s.CarriedMS, s.Carried})
	if used != "" {
		return own, nil, "the step's " + used
	}
	if part == PartAfter {
		return own, nil, ""
	}
	run, used := s.Plan.Limits.rest(spent{s.Worked + s.CarriedMS, s.Spent})
	if used != "" {
		return own, nil, "the run's " + used
	}
	limits, tightened = own.within(run)
	return limits, tightened, ""
}

// exhaust ends the next step with error if one of its limits is used up.
func (s *State) exhaust() {
	if _, _, limit := s.limits(); limit != "" {
		why := limit + " is used up"
		s.addResult(Result{Status: Errored, Error: &why})
	}
}

func (s *State) launch() Launch {
	s.Launches++
	step, _, _ := s.next()
	l := Launch{ID: "l" + strconv.Itoa(s.Launches), Step: step, Heard: s.Heard}
	if len(s.Open) > 0 && s.Open[0].Step == step.ID {
		s.Rest, s.RestStep, s.Uncounted, s.Open = s.Open[0].Token, step.ID, true, s.Open[1:]
	}
	if s.RestStep == "" || s.RestStep == step.ID {
		l.ResumeFrom, l.Uncounted, l.AwaySince = s.Rest, s.Uncounted && s.Rest != "", s.AwaySince
		s.Rest, s.RestStep, s.AwaySince = "", "", time.Time{}
	}
	l.Limits, l.Tightened, _ = s.limits()
	l.Attempt, l.Since = s.attempt(step.ID)
	for _, r := range slices.Backward(s.Results) {
		if r.Status != Skipped {
			l.Previous = &Previous{ID: r.ID, Status: r.Status}
			break
		}
	}
	s.Launched = &l
	return l
}

// attempt returns the number of a step's next attempt, and the number of the attempt in which
// its conversation began.
func (s *State) attempt(id string) (number, since int) {
	r := Result{}
	r.setAttempts(s.Earlier[id].made(), s.Continues == id)
	since, number = r.Span()
	return number, since
}
