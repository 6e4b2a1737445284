// Package prices is what conclave itself knows of models: what their tokens cost
// and how long a conversation they take, at the providers' own addresses, on a
// given day.
//
// It is a fallback and no authority. What a server says of a call's cost and what
// an operator configures come first (conclave/worker); what is in neither and not
// in the table is unknown, never free. The table holds list prices of plain calls:
// no discounts for batches, no surcharges for regions or for writing to a cache.
//
// Start with Find in find.go. The table is table.json; its figures are facts from
// the providers' price lists, as the MIT-licensed genai-prices collects them.
package prices
