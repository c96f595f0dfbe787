//! The setting plan_cache_mode: whether prepared statements are planned for the values of their parameters.

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum PlanCacheMode {
    /// What has proved to be cheaper.
    #[default]
    Auto,
    /// One plan for all values.
    ForceGenericPlan,
    /// A plan for each execution.
    ForceCustomPlan,
}

impl PlanCacheMode {
    /// `auto`, `force_generic_plan` or `force_custom_plan`, as the setting's type admits; auto for any other word.
    pub fn of_setting(word: &str) -> PlanCacheMode {
        match word {
            "force_generic_plan" => PlanCacheMode::ForceGenericPlan,
            "force_custom_plan" => PlanCacheMode::ForceCustomPlan,
            _ => PlanCacheMode::Auto,
        }
    }
}
