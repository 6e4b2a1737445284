package activities

import "fmt"

// UnpricedError says that a limit in dollars could not be kept: what an agent's
// model costs is not known.
type UnpricedError struct{ Agent, Model string }

func (e *UnpricedError) Error() string {
	return fmt.Sprintf("agent %s: max_cost_usd is set, and what the model %s costs is not known; "+
		"name a provider with a price_per_million in the worker configuration, or limit max_total_tokens instead", e.Agent, e.Model)
}
