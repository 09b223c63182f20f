package llamaserver

import "godwit/app/api/wire"

// ErrorBody is llama-server's error object. Its code is the status.
type ErrorBody struct {
	Error ErrorObject `json:"error"`
}

// ErrorObject is the object inside an ErrorBody. Param and Reason are Godwit's.
type ErrorObject struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
	Type    string `json:"type"`
	Param   string `json:"param,omitempty"`
	Reason  string `json:"reason,omitempty"`
	Prompt  int    `json:"n_prompt_tokens,omitempty"`
	Context int    `json:"n_ctx,omitempty"`
}

// Below lists the prefixes of the dialect's paths, including unknown paths.
var Below = []string{"/slots/", "/models/"}

// ErrorForm writes an error in llama-server's form.
func ErrorForm(e *wire.Error) any {
	return ErrorBody{ErrorObject{
		Code: e.Status, Message: e.Message, Type: e.Type, Param: e.Param, Reason: e.Code, Prompt: e.Prompt, Context: e.Context,
	}}
}

// Health is the answer of GET /health.
type Health struct {
	Status string `json:"status"`
}

// Props is the answer of GET /props.
type Props struct {
	Defaults   PropsDefaults `json:"default_generation_settings"`
	Slots      int           `json:"total_slots"`
	Alias      string        `json:"model_alias"`
	Path       string        `json:"model_path"`
	Template   string        `json:"chat_template"`
	BOS        string        `json:"bos_token"`
	EOS        string        `json:"eos_token"`
	Modalities Modalities    `json:"modalities"`
	Build      string        `json:"build_info"`
}

// PropsDefaults holds the default parameters of requests.
type PropsDefaults struct {
	Params  Settings `json:"params"`
	Context int      `json:"n_ctx"`
}

// Modalities lists what the model reads in addition to text.
type Modalities struct {
	Vision bool `json:"vision"`
	Audio  bool `json:"audio"`
}

// Slot is an entry in the list of GET /slots.
type Slot struct {
	ID         int  `json:"id"`
	Context    int  `json:"n_ctx"`
	Processing bool `json:"is_processing"`
	Tokens     int  `json:"n_tokens"`
	Prompt     int  `json:"n_prompt_tokens"`
	Decoded    int  `json:"n_decoded"`
}

// SlotFile is the body of a request to save or restore a slot.
type SlotFile struct {
	Filename string `json:"filename" need:"" most:"128" doc:"Name of the file in the folder of saved slots."`
}

// SlotSaved is the response after a save.
type SlotSaved struct {
	Slot    int       `json:"id_slot"`
	File    string    `json:"filename"`
	Saved   int       `json:"n_saved"`
	Written int64     `json:"n_written"`
	Timings SlotTimes `json:"timings"`
}

// SlotRestored is the response after a restore.
type SlotRestored struct {
	Slot     int       `json:"id_slot"`
	File     string    `json:"filename"`
	Restored int       `json:"n_restored"`
	From     int       `json:"n_reuse_from"` // length of the shortest prefix that a prompt can reuse
	Read     int64     `json:"n_read"`
	Timings  SlotTimes `json:"timings"`
}

// SlotErased is the response after an erase.
type SlotErased struct {
	Slot   int `json:"id_slot"`
	Erased int `json:"n_erased"`
}

// SlotTimes are times in milliseconds.
type SlotTimes struct {
	Save    float64 `json:"save_ms,omitempty"`
	Restore float64 `json:"restore_ms,omitempty"`
}
