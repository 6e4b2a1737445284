// Rules 25, 27, 32, 34, 66 and 90: all that has happened, who holds or forces the session, and the budget.

package coordination

import (
	"time"

	"conclave/engine/llm"
)

// facts are all that has happened in a session. Each part has its own rules; those that need
// several parts are on the floors above.
type facts struct {
	roster
	ledger
	Shared bool `json:"shared,omitempty"` // the seclusion of this attempt has ended
	people
	waits
	checks
	staging
	Bell Ring `json:"bell,omitzero"` // the last ring
	conclusion
	Preparation llm.Usage `json:"preparation,omitzero"` // usage of the calls before the first step
	caller
	timeline
}

// people holds the messages and requests of people.
type people struct {
	Messages []Message `json:"messages,omitempty"`
	Paused   bool      `json:"paused,omitempty"`
	Short    bool      `json:"short,omitempty"` // the session's time is nearly over
}

func (f *facts) note(e Entry) { f.addEntry(f.Round, e) }

func (f *facts) noteAll(entries []Entry) {
	for _, e := range entries {
		f.note(e)
	}
}

func (f *facts) ignore(text string) { f.note(ignoredEntry(text)) }

func (f *facts) isUndecided() bool {
	return !f.Done() && f.Finale == nil && !f.Held() && f.Forced == ""
}

func (f *facts) isIdle() bool { return !f.isBusy() && !f.hasChecksRunning(&f.roster) }

func (f *facts) startDueChecks(quorum bool) []Check {
	if f.Config.Ballot == ballotText || !f.isUndecided() {
		return nil
	}
	return f.startChecks(&f.roster, quorum || !f.isBusy())
}

func (f *facts) accept(entry Accepted) int { return f.addAccepted(f.attemptNumber(), entry) }

// Stamp sets the time of events, ledger entries and questions that have none. The state has no clock, so
// the driver calls it after Step and Drain.
func (f *facts) Stamp(now time.Time) {
	f.stampEntries(now)
	f.stampAccepted(now)
	f.stampQuestions(now)
}

func (f *facts) countPreparation(e Drafted) {
	if f.Done() {
		f.ignore("the cost of a preparation ignored")
		return
	}
	f.Preparation = f.Preparation.Add(e.Usage)
	f.note(Entry{Kind: entryDrafted, Reason: truncate(e.Reason), Text: e.Text})
}

func (f *facts) noteTimeShort() {
	if f.Done() || f.Short {
		f.ignore("time is short; ignored, it was reported before")
		return
	}
	f.Short = true
	f.note(Entry{Kind: entryAsked, Text: "time is short: running steps are asked to finish"})
}

// forceDecision makes the next Drain decide. The first status given names the decision.
func (f *facts) forceDecision(status Status, why string) {
	if f.Done() || f.Forced != "" {
		f.ignore(why + "; ignored, a decision was already taken or asked for")
		return
	}
	f.Forced = status
	f.note(Entry{Kind: entryAsked, Text: why})
}

func (f *facts) requestCancel() {
	if f.Done() || f.Forced == Cancelled {
		f.ignore("cancel ignored: the session is over")
		return
	}
	f.Forced = Cancelled
}

// Cost returns the usage of the preparations and of all agents together.
func (f *facts) Cost() llm.Usage {
	sum := f.Preparation
	for _, a := range f.Agents {
		sum = sum.Add(a.Usage)
	}
	return sum
}

// budgetLeft returns the part of the budget that is neither spent nor granted to running steps. A
// zero field is no limit; a negative one is overspent.
func (f *facts) budgetLeft() Allowance {
	budget, spent := f.Config.Budget, f.Cost()
	left := Allowance{}
	if budget.Tokens > 0 {
		left.Tokens = budget.Tokens - spent.InputTokens - spent.OutputTokens
	}
	if budget.USD > 0 {
		left.USD = budget.USD - spent.AtLeastUSD()
	}
	for _, a := range f.Agents {
		if a.Run != nil {
			left.Tokens -= a.Run.Launch.Allowance.Tokens
			left.USD -= a.Run.Launch.Allowance.USD
		}
	}
	return left
}

// Affords reports whether the budget, if there is one, leaves an allowance for a new step.
func (f *facts) Affords() bool {
	left, budget := f.budgetLeft(), f.Config.Budget
	return (budget.Tokens <= 0 || left.Tokens > 0) && (budget.USD <= 0 || left.USD > 0)
}

// shareBudget divides the rest of the budget equally among launches, and returns them as commands.
// The steps were started without an allowance, so nothing is granted twice.
func (f *facts) shareBudget(launches []Launch) []Command {
	var commands []Command
	each := f.allowanceFor(max(1, len(launches)))
	for _, l := range launches {
		l.Allowance = each
		f.agentOf(l.Agent).Run.Launch.Allowance = each
		commands = append(commands, l)
	}
	return commands
}

func (f *facts) allowanceFor(n int) Allowance {
	left := f.budgetLeft()
	if f.Config.Budget.Tokens > 0 {
		left.Tokens = max(1, left.Tokens/int64(n))
	}
	if f.Config.Budget.USD > 0 {
		left.USD = max(0, left.USD/float64(n))
	}
	return left
}

// isBudgetSpent reports whether the budget is used up. Calls of unknown cost count as zero: in a
// session with a cost limit, these are calls that a server did not count.
func (f *facts) isBudgetSpent() bool {
	budget, cost := f.Config.Budget, f.Cost()
	return budget.Tokens > 0 && cost.InputTokens+cost.OutputTokens >= budget.Tokens ||
		budget.USD > 0 && cost.AtLeastUSD() >= budget.USD
}

// conclusion is how the session ends, and how earlier attempts of the team ended.
type conclusion struct {
	Forced   Status           `json:"forced"`             // the end that Finish, TimeUp or CancelRequested forces; empty once it is reached
	Settled  *int             `json:"settled,omitempty"`  // number of messages at the decision; nil before it
	Finale   *finalAnswer     `json:"finale,omitempty"`   // nil unless a final answer is being made
	Earlier  []RejectedAnswer `json:"earlier,omitempty"`  // rejected attempts of the team
	Fallback *Decision        `json:"fallback,omitempty"` // the decision of the last rejected attempt
	Outcome  *Decision        `json:"outcome"`            // nil until the session is done
}

// Done reports whether the session has ended.
func (c *conclusion) Done() bool { return c.Outcome != nil }

// Decision returns the outcome, or the zero Decision before the session is done.
func (c *conclusion) Decision() Decision {
	if c.Outcome == nil {
		return Decision{}
	}
	return c.Outcome.clone()
}

func (c *conclusion) attemptNumber() int { return 1 + len(c.Earlier) }

// finalAnswer is a decision whose final answer is in progress.
type finalAnswer struct {
	Decision Decision `json:"decision"`
	Stage    stage    `json:"stage"`
	By       string   `json:"by"` // the presenter, who also judges
}

// stage is the progress of a finale.
type stage string

// The stages of a finale.
const (
	stagePresent  stage = "present"
	stageEvaluate stage = "evaluate"
	stageOver     stage = "over"
)

func (f *facts) isParked() bool {
	return f.Config.OnAgentFailure == failurePark && f.hasLostAgent() || f.isStranded(&f.roster, f.Finale != nil) || f.overdue() != nil
}

// parkedFor returns the remedy and the failures of a parked session, or "" if it is not parked.
func (f *facts) parkedFor() string {
	if f.Done() || !f.isParked() {
		return ""
	}
	if f.isStranded(&f.roster, f.Finale != nil) {
		return "retry after mending it, or cancel: " + f.unreachedCauses()
	}
	var failed, causes []string
	if late := f.overdue(); late != nil {
		return "reply, finish or cancel: nobody has answered " + late.ID + " in time, " + truncate(late.Ask.Text)
	}
	for _, a := range f.Agents {
		if a.Error != nil {
			failed, causes = append(failed, a.ID), append(causes, a.Error.Type+": "+a.Error.Message)
		}
	}
	return "retry, finish or cancel: " + Together(failed, causes, " failed, ")
}

// Held reports whether the session is paused or parked, that is, waits for a person. Its
// clock is then stopped.
func (f *facts) Held() bool { return !f.Done() && (f.Paused || f.isParked()) }

// Unread records that a person's request could not be read, and why.
func (f *facts) Unread(request, why string) {
	f.note(Entry{Kind: EntryIgnored, Reason: truncate(why), Text: request + " ignored"})
}
