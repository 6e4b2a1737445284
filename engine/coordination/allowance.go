package coordination

// left is what of the budget is neither spent nor promised to running steps;
// zero fields are no limit, negative ones nothing left.
func (s *State) left() Allowance {
	budget, spent := s.Config.Budget, s.Cost()
	left := Allowance{}
	if budget.Tokens > 0 {
		left.Tokens = budget.Tokens - spent.InputTokens - spent.OutputTokens
	}
	if budget.USD > 0 {
		left.USD = budget.USD - spent.AtLeastUSD()
	}
	for i := range s.Agents {
		if run := s.Agents[i].Run; run != nil {
			left.Tokens -= run.Launch.Allowance.Tokens
			left.USD -= run.Launch.Allowance.USD
		}
	}
	return left
}

// affords reports whether there is anything left to give to a new step.
func (s *State) affords() bool {
	left, budget := s.left(), s.Config.Budget
	return (budget.Tokens <= 0 || left.Tokens > 0) && (budget.USD <= 0 || left.USD > 0)
}

// share gives every one of the steps launched together an equal share of what is
// left. They were started with nothing, so that none of it is promised yet.
func (s *State) share(launches []Command) []Command {
	if len(launches) == 0 {
		return nil
	}
	purse := s.purse(len(launches))
	for i := range launches {
		if l, ok := launches[i].(Launch); ok {
			l.Allowance = purse
			s.agent(l.Agent).Run.Launch.Allowance = purse
			launches[i] = l
		}
	}
	return launches
}

// purse is what each of n steps may spend.
func (s *State) purse(n int) Allowance {
	left := s.left()
	if s.Config.Budget.Tokens > 0 {
		left.Tokens = max(1, left.Tokens/int64(n))
	}
	if s.Config.Budget.USD > 0 {
		left.USD = max(0, left.USD/float64(n))
	}
	return left
}

// spent reports whether the budget is used up.
func (s *State) spent() bool { return s.Config.Budget.spent(s.Cost()) }
