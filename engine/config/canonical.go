package config

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
)

// Canonical returns the team as JSON with every default resolved, the same bytes
// for the same meaning. Parse reads it back unchanged. It fails only for a Team
// that did not come from Parse and has Params that JSON cannot express.
func (t Team) Canonical() ([]byte, error) {
	data, err := json.Marshal(t)
	if err != nil {
		return nil, fmt.Errorf("write the team configuration as JSON: %w", err)
	}
	return data, nil
}

// Hash is the SHA-256 of the canonical form in hex; empty if there is none.
func (t Team) Hash() string {
	data, err := t.Canonical()
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}
