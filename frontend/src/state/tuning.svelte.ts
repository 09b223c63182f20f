// The settings of individual models, and what their makers recommend.
import { post } from '../lib/api';
import { parameterName } from '../lib/parameters';
import { figure, join } from '../lib/format';
import type { Model, ModelSettings } from '../lib/types';
import { app } from './app.svelte';
import { attempt } from './toasts.svelte';

/** Replaces the settings of a model. An error is shown at the given place. */
export async function tune(model: Model, settings: ModelSettings, at: string): Promise<void> {
  await attempt(async () => {
    const now = await post<Model>(`/app/models/${encodeURIComponent(model.name)}/tune`, settings);
    app.models = app.models.map((m) => (m.path === now.path ? { ...m, settings: now.settings, stale: now.stale } : m));
  }, at);
}

/** Applies the sampling that the model's maker recommends, or records that the user declined it. */
export function answerAdvice(model: Model, take: boolean, at: string): Promise<void> {
  const now = model.settings ?? {};
  return tune(model, { ...now, sampling: take ? { ...now.sampling, ...model.advice?.sampling } : now.sampling, answered: true }, at);
}

/** Returns the value of a sampling parameter for chats that do not set it. */
export function baseOf(name: string, model: Model | undefined): number | undefined {
  return model?.settings?.sampling?.[name] ?? app.parameters.find((p) => p.name === name)?.default;
}

/** Reports whether a recommendation differs from the values in use. */
export const differs = (model: Model) => Object.entries(model.advice?.sampling ?? {}).some(([name, x]) => Math.abs((baseOf(name, model) ?? NaN) - x) > 1e-9);

/** Returns a recommendation as text. */
export const adviceText = (model: Model) => join(Object.entries(model.advice?.sampling ?? {}).map(([name, x]) => `${parameterName(name, true)} ${figure(x)}`));
