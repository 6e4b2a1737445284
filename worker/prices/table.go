package prices

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"sync"
)

//go:embed table.json
var source []byte

// Tariff is in US dollars per million tokens.
type Tariff struct {
	Input       float64  `json:"input"`
	CachedInput *float64 `json:"cached_input"` // as Input if nil
	Output      float64  `json:"output"`
}

// Model is what is known of a model at its provider.
type Model struct {
	Tariff

	// ContextWindow is in tokens, the reply included; 0 if it is not known.
	ContextWindow int `json:"context_window"`

	// Long is the tariff of long conversations; nil if there is none.
	Long *Long `json:"long"`
}

// Long is the tariff of a call, all of its tokens, with more than Above input
// tokens.
type Long struct {
	Above int64 `json:"above"`
	Tariff
}

// table is all that is known.
type table struct {
	AsOf      string     `json:"as_of"`
	Routers   []string   `json:"routers"` // hosts that pass calls on for what the provider takes
	Providers []provider `json:"providers"`
}

// provider is one that sells calls of models at its own hosts.
type provider struct {
	Name   string           `json:"name"`
	Hosts  []string         `json:"hosts"`
	Prefix string           `json:"prefix"` // of its models at a router; empty if others sell them there, too
	Models map[string]Model `json:"models"`
}

// known is the table, read once.
var known = sync.OnceValue(func() table {
	t, err := read(source)
	if err != nil {
		return table{} // nothing is known; a test reads the table
	}
	return t
})

func read(data []byte) (table, error) {
	var t table
	if err := json.Unmarshal(data, &t); err != nil {
		return table{}, fmt.Errorf("read the table of prices: %w", err)
	}
	return t, nil
}

// AsOf is the day of the table's prices, as YYYY-MM-DD.
func AsOf() string { return known().AsOf }
