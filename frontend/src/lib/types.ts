// The JSON of the page's endpoints. The types are generated from the structs of
// app/api/page.

export type * from './types_gen';

/** The value of a setting. */
export type Value = null | boolean | number | string | string[];
